"""A pool of buffers for bytes that are read from files and sent to sockets.

If the data are in the page cache, allocating memory costs more than reading into it: the kernel has to allocate and
clear every page. Therefore buffers of a few sizes are reused after they are sent, up to a limit.
"""

from __future__ import annotations

from typing import Final

_BYTES_MIN: Final = 64 * 1024
_BYTES_MAX: Final = 4 * 1024 * 1024
_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024


class ReadBuffers:
    """The pool. Concurrency: the event loop only; a buffer that is taken may be filled by any thread."""

    def __init__(self) -> None:
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes with arbitrary content."""
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
        """Return an unused buffer to the pool."""
        capacity = len(buffer)
        if capacity <= _BYTES_MAX and self._kept_bytes + capacity <= _KEPT_BYTES_MAX:
            self._kept_bytes += capacity
            self._kept.setdefault(capacity, []).append(buffer)
