"""Responses are encrypted in order and as far as the socket accepts them; files are refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.errors import InvariantViolation
from ottla.base.files import OsDisk
from ottla.broker.net.file_region import FileRegion
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.net.tls_outbox import TlsOutbox
from ottla.security.tls.stream import TlsStream
from tests.support.certificates import Authority
from tests.support.tls import client_of, connect, read_all, server_of


class Setup:
    def __init__(self) -> None:
        authority = Authority()
        self.client = client_of(authority).new_stream("localhost")
        self.server = server_of(authority.issue("server")).new_stream()
        connect(self.client, self.server)
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.setblocking(False)
        self.outbox = TlsOutbox(self.ours, self.server)
        self.sent: list[str] = []

    def add(self, name: str, *buffers: bytes | memoryview) -> PendingResponse:
        pending = PendingResponse()
        pending.buffers = buffers or None
        pending.on_sent = lambda: self.sent.append(name)
        self.outbox.add(pending)
        return pending

    def receive(self) -> bytes:
        """What has arrived, decrypted."""
        try:
            self.client.receive(memoryview(self.theirs.recv(1 << 20)))
        except BlockingIOError:
            return b""
        found = b""
        while self.client.pending and (part := read_all(self.client)):
            found += part
        return found


@pytest.fixture
def setup() -> Iterator[Setup]:
    made = Setup()
    made.receive()
    yield made
    made.ours.close()
    made.theirs.close()


def test_a_response_waits_for_earlier_ones(setup: Setup) -> None:
    first = setup.add("first")
    setup.add("second", b"second")
    setup.outbox.send()
    assert setup.receive() == b""
    assert not setup.outbox.empty
    first.buffers = (b"fi", memoryview(b"rst "), b"")
    setup.outbox.send()
    assert setup.receive() == b"first second"
    assert setup.outbox.empty
    assert setup.sent == ["first", "second"]


def test_bytes_that_the_kernel_does_not_accept_are_encrypted_later(setup: Setup) -> None:
    large = bytes(range(256)) * 12_000
    setup.add("a", b"head", memoryview(large), b"tail")
    setup.add("b", *[b"%d," % number for number in range(20_000)])
    setup.outbox.send()
    assert setup.outbox.blocked
    assert setup.sent == []
    expected = b"head" + large + b"tail" + b"".join(b"%d," % number for number in range(20_000))
    received = bytearray()
    while len(received) < len(expected):
        received += setup.receive()
        setup.outbox.send()
    assert received == expected
    assert not setup.outbox.blocked
    assert setup.sent == ["a", "b"]


def test_small_buffers_share_a_record(setup: Setup) -> None:
    setup.add("a", *[b"x"] * 1_000)
    setup.outbox.send()
    assert len(setup.theirs.recv(1 << 20)) < 1_100


def test_closing_releases_what_is_not_sent(setup: Setup) -> None:
    setup.add("a", bytes(4 << 20))
    setup.add("b")
    setup.outbox.send()
    assert setup.outbox.blocked
    setup.outbox.close()
    assert setup.outbox.empty
    assert setup.sent == ["a", "b"]


def test_a_region_of_a_file_is_never_sent(setup: Setup, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"plain" * 1000)
    disk = OsDisk()
    pending = PendingResponse()
    file = disk.open(str(path))
    pending.buffers = (b"head", FileRegion(file, 0, 5000))
    setup.outbox.add(pending)
    with pytest.raises(InvariantViolation):
        setup.outbox.send()
    assert setup.receive() == b""
    file.close()
    assert isinstance(setup.server, TlsStream)
