"""The process at the other end of a loopback connection, from the tables of the Linux kernel.

The kernel finds one socket by its addresses (`sock_diag`) in some microseconds. To read the table of all sockets from
`/proc` takes tens of milliseconds on a machine with many of them; that is done only where `sock_diag` is not available.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_LOCAL_ADDRESS, _REMOTE_ADDRESS, _INODE = 1, 2, 9
"""Columns of the table of TCP sockets."""
_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence number and port of a netlink message."""
_QUERY = struct.Struct("=BBBBI")
"""Family, protocol, extensions, padding and states; the addresses of the socket follow."""
_PORTS = struct.Struct(">HH")
_RESULT = struct.Struct("=BBBB48s5I")
"""Family, state, timer, retransmissions, the addresses, then expiry, queues, user id and inode."""


def owner_of(port: int, remote_port: int, pids: Iterable[int]) -> int | None:
    """Which of some processes has a connection from one port to the other; None if none of them, or not on Linux."""
    try:
        inode = _inode_by_query(port, remote_port)
    except OSError:
        inode = _inode_in_table(port, remote_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids if wanted in _descriptors(pid)), None)


def _inode_by_query(port: int, remote_port: int) -> str | None:
    """Look up one socket of the loopback interface, of either family."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as netlink:
        for family, address in (
            (socket.AF_INET, socket.inet_aton("127.0.0.1") + bytes(12)),
            (socket.AF_INET6, socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.1")),
        ):
            ends = _PORTS.pack(port, remote_port) + address + address + bytes(4) + _NO_COOKIE
            query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + ends
            header = _HEADER.pack(_HEADER.size + len(query), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
            netlink.send(header + query)
            result = netlink.recv(4096)
            _, kind, _, _, _ = _HEADER.unpack_from(result)
            if kind == _SOCK_DIAG_BY_FAMILY:
                return str(_RESULT.unpack_from(result, _HEADER.size)[-1])
    return None


def _inode_in_table(port: int, remote_port: int) -> str | None:
    lines: list[str] = []
    for name in ("tcp", "tcp6"):  # a socket for both families is listed in the second one
        try:
            lines += (_PROC / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
    local, remote = f":{port:04X}", f":{remote_port:04X}"
    for line in lines:
        columns = line.split()
        if columns[_LOCAL_ADDRESS].endswith(local) and columns[_REMOTE_ADDRESS].endswith(remote):
            return columns[_INODE]
    return None


def _descriptors(pid: int) -> set[str]:
    folder = _PROC / str(pid) / "fd"
    found = set()
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - names are enough
            try:
                found.add(os.readlink(folder / name))  # noqa: PTH115 - the text of the link, not a path
            except OSError:
                continue
    except OSError:
        return found
    return found
