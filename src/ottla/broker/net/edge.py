"""What all connections of a broker share: the loop, the receive buffer, the limits, the books of who waits.

`hold` keeps the sum of bytes that unanswered requests, frames in progress and unsent records occupy. Above the
limit the process is `exhausted`, until a quarter of it is free again. Meanwhile large frames wait in `starved`,
all but one at a time: the `_finisher` reads on to the end of its frame, so that there is always progress and never
more than two frames beyond the limit. Small requests need little and go on in small bites, until they too have
added a quarter of the limit (`full`).

Answers finished during one turn of the loop are sent together at its end: `touch` notes the connection,
`_flush` sends for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from ottla.broker.net.limits import ConnectionCount, Limits
from ottla.wire.frame_reader import LARGE_FRAME_BYTES

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.net.connection import Connection

_RECEIVE_BYTES = 512 * 1024
_SMALL_BITE_BYTES = 16 * 1024


class FrameHandler(Protocol):
    def __call__(self, connection: Connection, frame: memoryview) -> None:
        """Answer one request frame, now or later; RemoteProtocolError closes the connection."""
        ...


class Edge:
    """Shared by all connections of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        handle: FrameHandler,
        log: FilteringBoundLogger,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.handle = handle
        self.log = log
        # A parked rest is at most one small frame; twice that leaves room to receive behind it.
        self.receive_view = memoryview(bytearray(max(_RECEIVE_BYTES, 2 * LARGE_FRAME_BYTES)))
        self.counts = ConnectionCount()
        # In the order of their arrival: what is done to all of them is done in the same order in every run.
        self.connections: dict[Connection, None] = {}
        self.starved: deque[Connection] = deque()
        self.exhausted = False
        self.held_bytes = 0
        self._finisher: Connection | None = None
        self._dirty: list[Connection] = []

    def touch(self, connection: Connection) -> None:
        """Flush `connection` at the end of this turn of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    def hold(self, count: int) -> None:
        """Count bytes held (or given back, if negative)."""
        self.held_bytes += count
        if self.exhausted:
            if self.held_bytes <= self.limits.in_flight_bytes_max * 3 // 4:
                self.exhausted = False
                self._finisher = None
                starved, self.starved = self.starved, deque()
                for connection in starved:
                    self.loop.call_soon(connection.resume)
        elif self.held_bytes > self.limits.in_flight_bytes_max:
            self.exhausted = True

    @property
    def full(self) -> bool:
        """True if not even small things may be added."""
        limits = self.limits
        # Large frames overshoot by two at most: the one that crossed the limit, and the finisher's.
        return self.held_bytes > limits.in_flight_bytes_max * 5 // 4 + 2 * limits.frame_bytes_max

    def bite(self, connection: Connection, *, large: bool) -> int:
        """How many bytes a connection may receive while the process is exhausted; with 0 it has to wait."""
        if self._finisher is None:
            self._finisher = connection
        if self._finisher is connection:
            return _RECEIVE_BYTES if large else _SMALL_BITE_BYTES
        if not large and not self.full:
            return _SMALL_BITE_BYTES
        self.starved.append(connection)
        return 0

    def finished(self, connection: Connection) -> None:
        """A connection has completed a frame, or is gone: if it was its turn to read on, it is another's."""
        if self._finisher is not connection:
            return
        self._finisher = None
        while self.starved and self._finisher is None:
            waiting = self.starved.popleft()
            if not waiting.closed:
                self._finisher = waiting
                self.loop.call_soon(waiting.resume)

    def check(self) -> None:
        """Look for connections whose clients have used up our patience."""
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)

    def left(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.finished(connection)
        self.counts.leave(connection.ip)
