"""The process at the other end of a loopback connection, from the tables of the Linux kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_LOCAL_ADDRESS, _REMOTE_ADDRESS, _INODE = 1, 2, 9
"""Columns of the table of TCP sockets."""


def owner_of(port: int, remote_port: int, pids: Iterable[int]) -> int | None:
    """Which of some processes has a connection from one port to the other; None if none of them, or not on Linux."""
    inode = _inode_of(port, remote_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    return next((pid for pid in pids if wanted in _descriptors(pid)), None)


def _inode_of(port: int, remote_port: int) -> str | None:
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
