"""Reader of frames without a socket: where to receive the next bytes, and which frame is complete.

A frame is a big-endian int32 size and that many bytes. Small frames are received into a buffer that all connections
of the event loop share: a frame returned by `peek` is valid only until the current callback returns, and `park`
saves incomplete frames before another connection uses the buffer. A frame above `LARGE_FRAME_BYTES` is received
into separate memory, which grows with the bytes that arrive (at most fourfold, or to the size of a frame that this
connection has completed before). That memory is not reused: its batches may be kept without a copy.

After a large frame, another one is expected: only its first bytes are received into the shared buffer, so that the
others need no copy. `expected` is the number of bytes that the receiver may wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.base.buffers import uninitialized
from ottla.base.errors import RemoteProtocolError
from ottla.wire.frames import SIZE

LARGE_FRAME_BYTES: Final = 128 * 1024
"""A larger frame does not fit the shared receive buffer and gets separate memory."""
_GROWTH = 4
_LARGE_BYTES_MIN = 4096
_FIRST_BYTES: Final = 4096
"""How much is received at first if a large frame is expected."""
_NOTHING = memoryview(b"")


class FrameReader:
    """The receiving half of one connection. `on_allocated` is notified of changes of `allocated` bytes."""

    __slots__ = (
        "_end",
        "_expects_large",
        "_large",
        "_large_filled",
        "_large_seen",
        "_large_size",
        "_on_allocated",
        "_position",
        "_view",
        "allocated",
        "frame_bytes_max",
    )

    def __init__(self, frame_bytes_max: int, on_allocated: Callable[[int], None]) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.allocated = 0
        self._on_allocated = on_allocated
        self._view = _NOTHING
        self._position = 0
        self._end = 0
        self._large: memoryview | None = None
        self._large_size = 0
        self._large_filled = 0
        self._large_seen = 0
        self._expects_large = False

    @property
    def in_large_frame(self) -> bool:
        return self._large is not None

    @property
    def in_frame(self) -> bool:
        """Whether an incomplete frame has been received."""
        return self._large is not None or self._position < self._end

    @property
    def expected(self) -> int:
        """How many bytes to wait for: those that fill the memory of a large frame, otherwise any."""
        return 1 if self._large is None else len(self._large) - self._large_filled or 1

    def target(self, shared: memoryview) -> memoryview:
        """The memory for the next bytes; report their number with `received`."""
        if self._large is not None:
            if self._large_filled == len(self._large):
                self._grow(self._large_filled * _GROWTH)
            return self._large[self._large_filled :]
        kept = self._end - self._position
        if kept:
            shared[:kept] = self._view[self._position : self._end]
        self._view, self._position, self._end = shared, 0, kept
        return shared[kept : kept + _FIRST_BYTES] if self._expects_large else shared[kept:]

    def received(self, count: int) -> None:
        if self._large is not None:
            self._large_filled += count
        else:
            self._end += count

    def peek(self) -> memoryview | None:
        """The next complete frame without its size, until `drop` removes it."""
        if self._large is not None:
            return self._large if self._large_filled == self._large_size else None
        position = self._position
        if self._end - position < 4:
            return None
        (size,) = SIZE.unpack_from(self._view, position)
        position += 4
        if size > LARGE_FRAME_BYTES:
            return self._begin_large(size, position)
        if size < 0:
            raise RemoteProtocolError(f"frame of {size} bytes")
        if position + size > self._end:
            return None
        return self._view[position : position + size]

    def drop(self, frame: memoryview) -> None:
        """Remove the frame last returned by `peek`."""
        if self._large is not None:
            self._large = None
            self._expects_large = True
            self._large_seen = max(self._large_seen, self._large_size)
            self._release()
        else:
            self._expects_large = False
            self._position += 4 + len(frame)

    def received_frames(self) -> tuple[memoryview, int, int]:
        """Received small frames: memory, start, end. Valid as long as a frame of `peek`."""
        return self._view, self._position, self._end

    def advance(self, position: int) -> None:
        """Remove everything before `position` of `received_frames`."""
        self._expects_large = False
        self._position = position

    def park(self) -> None:
        """Copy the remaining bytes out of the shared buffer."""
        left = bytes(self._view[self._position : self._end])
        self._view, self._position, self._end = memoryview(left), 0, len(left)
        if self._large is None and len(left) != self.allocated:
            self._on_allocated(len(left) - self.allocated)
            self.allocated = len(left)

    def close(self) -> None:
        self._view, self._large = _NOTHING, None
        self._position = self._end = 0
        self._release()

    def _begin_large(self, size: int, start: int) -> memoryview | None:
        if size > self.frame_bytes_max:
            raise RemoteProtocolError(f"frame of {size} bytes, at most {self.frame_bytes_max} are allowed")
        taken = min(size, self._end - start)
        self._large_size = size
        self._large_filled = 0
        self._large = _NOTHING
        self._grow(max(_GROWTH * taken, self._large_seen, _LARGE_BYTES_MIN))
        self._large[:taken] = self._view[start : start + taken]
        self._large_filled = taken
        self._position = start + taken
        return self._large if taken == size else None

    def _grow(self, capacity: int) -> None:
        old = self._large
        grown = memoryview(uninitialized(min(self._large_size, capacity)))
        if old:
            grown[: self._large_filled] = old[: self._large_filled]
        self._large = grown
        self._on_allocated(len(grown) - self.allocated)
        self.allocated = len(grown)

    def _release(self) -> None:
        if self.allocated:
            self._on_allocated(-self.allocated)
            self.allocated = 0
