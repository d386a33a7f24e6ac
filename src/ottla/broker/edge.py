"""What all connections of a broker share: the loop, the receive buffer, the limits, the books of who waits.

`hold` keeps the sum of bytes that unanswered requests and frames in progress occupy. Above the limit the
process is `exhausted`: connections stop reading and queue up in `starved` until a quarter of it is free again.

Answers finished during one turn of the loop are sent together at its end: `touch` notes the connection,
`_flush` sends for all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ottla.broker.limits import LARGE_FRAME_BYTES, ConnectionCount, Limits

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.connection import Connection

_RECEIVE_BYTES = 256 * 1024


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
        self.connections: set[Connection] = set()
        self.starved: list[Connection] = []
        self.exhausted = False
        self.held_bytes = 0
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
                starved, self.starved = self.starved, []
                for connection in starved:
                    self.loop.call_soon(connection.resume)
        elif self.held_bytes > self.limits.in_flight_bytes_max:
            self.exhausted = True

    def check(self) -> None:
        """Look for connections whose clients have used up our patience."""
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)

    def left(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.counts.leave(connection.ip)
