"""Regions of files that are sent with `sendfile`, without a copy in this process.

A region has its own descriptor, so that it stays readable after its segment is closed, renamed or deleted: the content
exists until the last descriptor is closed. Only bytes below the high watermark are sent, and those never change.

`cached` probes the page cache at some positions: `sendfile` would block the event loop for every page that must be read
from the disk. Old pages are evicted before newer ones, and pages are read ahead in order, so the first and the last
page of a region are rarely different from those between them. A page can also be evicted after the probe; then one
read blocks.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from ottla.base.files import File, OsFile

SENDFILE_BYTES_MIN: Final = 128 * 1024
"""Below this, reading and sending take fewer system calls."""

_PROBE_EVERY: Final = 1 << 20
_probe: Final = memoryview(bytearray(1))


def cached(file: File, position: int, size: int) -> bool:
    """Return whether all bytes seem to be in the page cache."""
    last = position + size - 1
    positions = [*range(position, last, _PROBE_EVERY), last]
    return all(file.pread_into(_probe, each, wait=False) == 1 for each in positions)


class FileRegion:
    """A region of a file; its length is the number of bytes still to be sent."""

    __slots__ = ("_fd", "_left", "_position")

    def __init__(self, file: OsFile, position: int, size: int) -> None:
        self._fd = os.dup(file.fileno())
        self._position = position
        self._left = size

    def __len__(self) -> int:
        return self._left

    def send(self, sock: socket.socket) -> int:
        """Send as much as the socket accepts; the caller passes the returned count to `advance`."""
        sent = os.sendfile(sock.fileno(), self._fd, self._position, self._left)
        if sent == 0:
            raise OSError("a segment is shorter than its log")
        return sent

    def advance(self, sent: int) -> None:
        self._position += sent
        self._left -= sent

    def close(self) -> None:
        """Close the descriptor; also called when a region is discarded unsent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    __del__ = close
