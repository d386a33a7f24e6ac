"""Bytes of a file on their way to a socket without passing through this process.

A region has a descriptor of its own, so that it stays readable whatever becomes of the segment it is part of: a file
that was closed, renamed or deleted keeps its content until the last descriptor is gone. Only bytes below the high
watermark are ever sent, and those never change.

`cached` asks the page cache at a few places whether it has the bytes: `sendfile` would hold up the event loop for
every page that has to come from the disk. The answer may be outdated a moment later; then one read waits.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from ottla.base.files import File, OsFile

SENDFILE_BYTES_MIN: Final = 128 * 1024
"""Below this, reading and sending take fewer system calls."""

_PROBE_EVERY: Final = 128 * 1024
_probe: Final = memoryview(bytearray(1))


def cached(file: File, position: int, size: int) -> bool:
    """Whether the page cache seems to hold all of it."""
    last = position + size - 1
    places = [*range(position, last, _PROBE_EVERY), last]
    return all(file.pread_into(_probe, place, wait=False) == 1 for place in places)


class FileRegion:
    """A part of a file; its length is what is still to be sent."""

    __slots__ = ("_fd", "_left", "_position")

    def __init__(self, file: OsFile, position: int, size: int) -> None:
        self._fd = os.dup(file.fileno())
        self._position = position
        self._left = size

    def __len__(self) -> int:
        return self._left

    def send(self, sock: socket.socket) -> int:
        """Send as much as the socket takes; the caller says `advance` with the count returned."""
        sent = os.sendfile(sock.fileno(), self._fd, self._position, self._left)
        if sent == 0:
            raise OSError("a segment has lost its end")
        return sent

    def advance(self, sent: int) -> None:
        self._position += sent
        self._left -= sent

    def close(self) -> None:
        """Give the descriptor back, as happens also to a region that is dropped unsent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    __del__ = close
