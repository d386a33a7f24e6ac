"""The state that all connections of a broker share: loop, receive buffer, limits, memory accounting.

`account` maintains the number of bytes that requests without a response, incomplete frames and unsent records occupy.
Above the limit memory is `exhausted`, until a quarter of the limit is free again. Meanwhile connections with
incomplete large frames wait in `blocked`, except one: the `_privileged` connection reads to the end of its frame.
So there is always progress, and never more than two frames above the limit. Small requests are still read, in small
portions, until they have added a quarter of the limit (`full`).

Responses that are completed in one iteration of the loop are sent together at its end: `schedule_flush` records the
connection, `_flush` sends for all of them. Small responses to several connections are sent with one system call
(`ottla.base.sends`), so that followers which wait for the same records receive them at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.base.buffers import lazy_buffer
from ottla.base.sends import SENDS_MAX, Sends
from ottla.broker.metrics.request_times import ResponseTimer
from ottla.broker.net.limits import ConnectionCount, Limits
from ottla.broker.turn import Turn
from ottla.wire.frame_reader import LARGE_FRAME_BYTES

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.metrics.request_times import RequestTimes
    from ottla.broker.net.authentication import SaslListener
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.listeners import ListenerType
    from ottla.broker.net.tls_listeners import TlsListeners

_RECEIVE_BYTES = 512 * 1024
_SMALL_RECEIVE_BYTES = 16 * 1024


class FrameHandler(Protocol):
    """Handles the request frames of connections."""

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        """Respond to one request frame, now or later; RemoteProtocolError closes the connection."""
        ...


class Edge:
    """The shared state of the connections of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        handlers: Mapping[ListenerType, FrameHandler],
        log: FilteringBoundLogger,
        request_times: RequestTimes | None = None,
        tls: TlsListeners | None = None,
        sasl_listeners: Mapping[str, SaslListener] | None = None,
        turn: Turn | None = None,
        sends: Sends | None = None,
    ) -> None:
        """`turn` is that of the writes which complete responses; without it the connections have their own."""
        self.loop = loop
        self._turn = turn or Turn(loop)
        self._sends = sends
        self.sasl_listeners = sasl_listeners or {}
        """What the connections of listeners with SASL share, by the names of the listeners."""
        self._request_times = request_times
        self.limits = limits
        self.handlers = handlers
        self.log = log
        self.tls = tls
        """The configuration of listeners with TLS; None if no listener has it."""
        # Saved bytes are at most one small frame; twice that leaves room to receive behind it.
        self.receive_view = lazy_buffer(max(_RECEIVE_BYTES, 2 * LARGE_FRAME_BYTES))
        self.counts = ConnectionCount()
        # In the order of their arrival, so that every run of a simulation treats them in the same order.
        self.connections: dict[Connection, None] = {}
        self.blocked: deque[Connection] = deque()
        self.exhausted = False
        self.occupied_bytes = 0
        self._privileged: Connection | None = None
        self._dirty: list[Connection] = []

    def response_timer(self) -> ResponseTimer | None:
        """The timer of a new connection; None without an endpoint for metrics."""
        return None if self._request_times is None else ResponseTimer(self._request_times)

    def schedule_flush(self, connection: Connection) -> None:
        """Flush `connection` at the end of this iteration of the loop."""
        if not self._dirty:
            self._turn.send(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        if self._sends is not None and len(dirty) > 1:
            self._send_together(self._sends, dirty)
        for connection in dirty:
            connection.flush()

    def _send_together(self, sends: Sends, connections: list[Connection]) -> None:
        """Send the small responses of these connections; `flush` sends the others, and notices errors."""
        small = [
            (connection, message)
            for connection in connections
            if (message := connection.small_message()) is not None
        ]
        for start in range(0, len(small), SENDS_MAX):
            chosen = small[start : start + SENDS_MAX]
            descriptors = [connection.fileno() for connection, _ in chosen]
            counts = sends.send(descriptors, [message for _, message in chosen])
            for (connection, _), count in zip(chosen, counts, strict=True):
                connection.message_sent(count)

    def account(self, count: int) -> None:
        """Count bytes that are now occupied (released, if negative)."""
        self.occupied_bytes += count
        if self.exhausted:
            if self.occupied_bytes <= self.limits.in_flight_bytes_max * 3 // 4:
                self.exhausted = False
                self._privileged = None
                blocked, self.blocked = self.blocked, deque()
                for connection in blocked:
                    self.loop.call_soon(connection.resume)
        elif self.occupied_bytes > self.limits.in_flight_bytes_max:
            self.exhausted = True

    @property
    def full(self) -> bool:
        """True if not even small requests are read."""
        limits = self.limits
        # Large frames overshoot by two at most: the one that crossed the limit, and that of the privileged connection.
        return self.occupied_bytes > limits.in_flight_bytes_max * 5 // 4 + 2 * limits.frame_bytes_max

    def receive_limit(self, connection: Connection, *, large: bool) -> int:
        """Return how many bytes a connection may receive while memory is exhausted; 0 if it has to wait."""
        if self._privileged is None:
            self._privileged = connection
        if self._privileged is connection:
            return _RECEIVE_BYTES if large else _SMALL_RECEIVE_BYTES
        if not large and not self.full:
            return _SMALL_RECEIVE_BYTES
        self.blocked.append(connection)
        return 0

    def frame_completed(self, connection: Connection) -> None:
        """Pass the privilege to the next blocked connection if `connection` had it."""
        if self._privileged is not connection:
            return
        self._privileged = None
        while self.blocked and self._privileged is None:
            waiting = self.blocked.popleft()
            if not waiting.closed:
                self._privileged = waiting
                self.loop.call_soon(waiting.resume)

    def check(self) -> None:
        """Close the connections whose clients exceed a time limit."""
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)

    def connection_closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.frame_completed(connection)
        self.counts.release(connection.ip)
