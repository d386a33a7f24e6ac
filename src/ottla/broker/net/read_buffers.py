"""Buffers for bytes on their way from a file to a socket, kept for the next fetch.

Fresh memory costs more than reading into it when the page cache holds the data: the kernel has to hand out and
clear every page. So buffers of a few sizes are kept, within a bound, and handed out again once they are sent.
"""

from __future__ import annotations

from typing import Final

_BYTES_MIN: Final = 64 * 1024
_BYTES_MAX: Final = 4 * 1024 * 1024
_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024


class ReadBuffers:
    """Concurrency: the event loop only (a buffer that is taken may be filled anywhere)."""

    def __init__(self) -> None:
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes with arbitrary content."""
        capacity = _BYTES_MIN
        while capacity < size:
            capacity *= 2
        if capacity > _BYTES_MAX:
            return bytearray(size)
        kept = self._kept.get(capacity)
        if kept:
            self._kept_bytes -= capacity
            return kept.pop()
        return bytearray(capacity)

    def give(self, buffer: bytearray) -> None:
        """Nobody uses the buffer any more."""
        capacity = len(buffer)
        if capacity <= _BYTES_MAX and self._kept_bytes + capacity <= _KEPT_BYTES_MAX:
            self._kept_bytes += capacity
            self._kept.setdefault(capacity, []).append(buffer)
