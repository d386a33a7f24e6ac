"""The smallest possible client: how soon after its start does a broker acknowledge a record?

It connects again and again, asks for a topic's metadata so that the topic is created, and produces one record
with acks=all until error code 0 comes back. Frames are written by hand: no client library's own waiting is
measured.
"""

from __future__ import annotations

import socket
import struct
import time

import crc32c

METADATA, PRODUCE = 3, 0


def one_record_batch(value: bytes) -> bytes:
    body = b"\0\0\0\x01" + bytes([len(value) << 1]) + value + b"\0"
    record = bytes([len(body) << 1]) + body
    now_ms = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def call(sock: socket.socket, api: int, version: int, body: bytes) -> bytes:
    """One request with header v1, one answer without its correlation id."""
    frame = struct.pack(">hhi", api, version, 1) + text("first-ack") + body
    sock.sendall(struct.pack(">i", len(frame)) + frame)
    size = struct.unpack(">i", _exactly(sock, 4))[0]
    return _exactly(sock, size)[4:]


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def _try_once(port: int, topic: str) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        call(sock, METADATA, 4, struct.pack(">i", 1) + text(topic) + b"\x01")
        batch = one_record_batch(b"first")
        body = struct.pack(">hhii", -1, -1, 5000, 1) + text(topic)
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
        answer = call(sock, PRODUCE, 7, body)
        error_at = 4 + 2 + len(topic) + 4 + 4
        return bool(struct.unpack_from(">h", answer, error_at)[0] == 0)


def wait(port: int, *, topic: str = "first-ack", timeout_s: float = 60, alive: object = None) -> None:
    """Returns when a record was acknowledged; `alive()` may raise to give up earlier."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if _try_once(port, topic):
                return
        except OSError:
            pass
        if callable(alive):
            alive()
        time.sleep(0.002)
    raise TimeoutError(f"no acknowledgement on port {port} within {timeout_s} s")


def has_groups(port: int) -> bool:
    """Whether the broker advertises JoinGroup (key 11), asked with ApiVersions v0."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        answer = call(sock, 18, 0, b"")
    count = struct.unpack_from(">i", answer, 2)[0]
    return any(struct.unpack_from(">h", answer, 6 + 6 * number)[0] == 11 for number in range(count))
