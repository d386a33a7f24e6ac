"""One client connection: receives frames and sends responses, in order and within limits.

A request is taken only after the responses to all earlier ones are completed, except that Produce may follow pending
Produce requests. No frame is taken, and after the next readable event the socket is not read either, while

- responses wait until the client reads them,
- too many bytes or requests of this connection are pending, or the next request waits for earlier ones,
- the connection has used its share of immediate responses in this iteration of the loop,
- memory is exhausted and this connection has to wait (`Edge.receive_limit`), or
- the client has exceeded a quota (`throttle`).

`check`, called about once a second, closes a connection that is idle, sends a frame too slowly, or does not read its
responses.

Concurrency: the event loop only. An exception in here or in a handler closes this connection and no other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ottla.base.errors import InvariantViolation, RemoteProtocolError
from ottla.base.low_water_mark import LowWaterMark
from ottla.broker.net.origin import Origin
from ottla.broker.net.outbox import Buffer, Outbox, PendingResponse
from ottla.wire.frame_reader import FrameReader

if TYPE_CHECKING:
    from ottla.broker.net.authentication import Authentication
    from ottla.broker.net.edge import Edge, FrameHandler
    from ottla.broker.net.listeners import Listener
    from ottla.broker.produce.bulk_produce import BulkPaths

_PRODUCE = 0
# Instead of a time: a frame was completed since the last `check`.
_NEW_FRAME = -1.0
_UNLIMITED = 1 << 31
_FEW = 64 * 1024


class Connection:
    """The state of one connection; `edge` is what all of them share."""

    __slots__ = (
        "_active",
        "_dirty",
        "_edge",
        "_exclusive",
        "_frame_bytes",
        "_frame_since",
        "_handle",
        "_in_flight",
        "_last_active",
        "_mark",
        "_next_waits",
        "_outbox",
        "_pending",
        "_reader",
        "_reading",
        "_receive",
        "_responded",
        "_sock",
        "_throttle",
        "_timer",
        "_write_since",
        "_writing",
        "authentication",
        "bulk_paths",
        "closed",
        "draining",
        "ip",
        "listener",
        "on_close",
        "on_drain",
        "on_next_request",
        "origin",
        "peer",
    )

    sends_files: ClassVar[bool] = True
    """Whether responses may contain regions of files, which are sent as they are."""

    def __init__(self, edge: Edge, sock: socket.socket, listener: Listener, ip: str, port: int) -> None:
        self._edge = edge
        self._handle = edge.handlers[listener.type]
        self._sock = sock
        self._mark = LowWaterMark(sock)
        self._receive = sock.recv_into
        self.listener = listener
        self.origin = Origin(listener, ip, port)
        """The listener, address and principal of the client; replaced when the client authenticates."""
        self.ip = ip
        self.peer = self.origin.peer
        self.closed = False
        self.draining = False
        self.on_close: Callable[[], None] | None = None
        """Called when the connection closes; set by a request that waits."""
        self.on_drain: Callable[[], None] | None = None
        """Called when the broker stops, so that a waiting request responds at once."""
        self.on_next_request: Callable[[], None] | None = None
        """Called when the client sends another request while an exclusive one waits (`watch_next_request`)."""
        self.bulk_paths: BulkPaths | None = None
        """The bulk paths of the produce handler, for requests that are similar to earlier ones."""
        self._reader = FrameReader(edge.limits.frame_bytes_max, edge.account)
        self._timer = edge.response_timer()
        self._outbox = Outbox(sock, self._timer)
        self._pending = 0
        self._in_flight = 0
        self._exclusive = False
        # The next frame has been received and waits for earlier responses.
        self._next_waits = False
        self._responded = 0
        self._throttle: asyncio.TimerHandle | None = None
        self._dirty = False
        self._active = True
        self._last_active = self._frame_since = self._write_since = edge.loop.time()
        self._frame_bytes = 0
        self._writing = False
        self._reading = True
        self.authentication: Authentication | None = None
        """The SASL authentication; None on listeners without SASL."""
        if listener.protocol.uses_sasl:
            self.authentication = edge.sasl_listeners[listener.name].authenticate(self, self._handle)
        edge.loop.add_reader(sock, self._on_readable)

    # Reading

    def _on_readable(self) -> None:
        edge, reader = self._edge, self._reader
        if self._muted():
            self._stop_reading()
            if self.on_next_request is not None:
                self.on_next_request()
            return
        if edge.exhausted:
            most = edge.receive_limit(self, large=reader.in_large_frame)
            if not most:
                self._stop_reading()
                return
            target = reader.target(edge.receive_view)[:most]
        else:
            target = reader.target(edge.receive_view)
        self._active = True
        try:
            got = self._receive(target)
        except (BlockingIOError, InterruptedError):
            reader.park()
            return
        except OSError:
            got = 0
        if not got:
            self.close()
            return
        reader.received(got)
        self._frame_bytes += got
        self._take_frames()
        if not self.closed:
            reader.park()
            if (expected := reader.expected) != self._mark.count:
                self._expect(expected)

    def _expect(self, count: int) -> None:
        """Let the socket wait for so many bytes, if it can."""
        self._mark.set(count)

    def _take_frames(self) -> None:
        """Handle the complete frames that may be taken now."""
        reader = self._reader
        try:
            while (
                reader.in_frame
                and not self.closed
                and not self._muted()
                and (frame := reader.peek()) is not None
            ):
                if self._pending and not self._pipelines(frame):
                    self._next_waits = True
                    return
                self._frame_bytes = 0
                self._frame_since = _NEW_FRAME
                if self._timer is not None and len(frame) >= 2:
                    self._timer.received(frame[0] << 8 | frame[1])
                if self._edge.exhausted:
                    self._edge.frame_completed(self)
                if (
                    self.bulk_paths is not None
                    and not reader.in_large_frame
                    and self.bulk_paths.take_frames(self, reader)
                ):
                    continue
                reader.drop(frame)
                self._handle(self, frame)
        except RemoteProtocolError as error:
            self._edge.log.info("connection closed", peer=self.peer, reason=str(error))
            self.close()
        except InvariantViolation:
            self.close()
            raise
        except Exception:
            self._edge.log.exception("request failed", peer=self.peer)
            self.close()

    def handle_frames(self, handler: FrameHandler, frame_bytes_max: int | None) -> None:
        """Let `handler` handle the next frames, of at most `frame_bytes_max` bytes or the general limit.

        The bulk paths end.
        """
        self._handle = handler
        self._reader.frame_bytes_max = frame_bytes_max or self._edge.limits.frame_bytes_max
        self.bulk_paths = None

    @staticmethod
    def _pipelines(frame: memoryview) -> bool:
        return len(frame) >= 2 and frame[0] == 0 and frame[1] == _PRODUCE

    def _muted(self) -> bool:
        limits = self._edge.limits
        return (
            self._exclusive
            or self._outbox.blocked
            or self.draining
            or self._in_flight > limits.connection_in_flight_bytes_max
            or self._pending >= limits.connection_pending_max
            or self._responded >= limits.connection_responses_max
            or self._next_waits
            or self._throttle is not None
        )

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._edge.loop.remove_reader(self._sock)

    def resume(self) -> None:
        """Take frames that had to wait, then continue to read."""
        self._next_waits = False
        if self.closed or self._muted():
            return
        if self._reader.in_frame:
            self._take_frames()
        if not self.closed and not self._reading and not self._muted():
            self._reading = True
            self._edge.loop.add_reader(self._sock, self._on_readable)

    def throttle(self, seconds: float) -> None:
        """Take no request for some time: the client has exceeded a quota."""
        loop = self._edge.loop
        until = loop.time() + seconds
        if self._throttle is not None:
            if self._throttle.when() >= until:
                return
            self._throttle.cancel()
        self._throttle = None if self.closed else loop.call_at(until, self._end_throttle)

    def _end_throttle(self) -> None:
        self._throttle = None
        self.resume()

    # Responding

    def reserve(self, pending: PendingResponse, *, exclusive: bool) -> None:
        """Reserve the next slot for a response that follows later.

        While it is pending and `exclusive`, no other request is taken.
        """
        self._outbox.add(pending)
        self._pending += 1
        self._exclusive = exclusive
        if pending.weight:
            self._in_flight += pending.weight
            self._edge.account(pending.weight)

    def watch_next_request(self, callback: Callable[[], None]) -> None:
        """Call `callback` when another request arrives, at once if one has: the request that waits can respond."""
        self.on_next_request = callback
        if self._reader.peek() is not None:
            callback()

    def complete(self, pending: PendingResponse, buffers: Sequence[Buffer]) -> None:
        """Fill the slot that `reserve` made."""
        if self.closed:
            if pending.on_sent is not None:
                pending.on_sent()
            return
        pending.buffers = buffers
        self._pending -= 1
        self._exclusive = False
        if pending.weight:
            self._in_flight -= pending.weight
            self._edge.account(-pending.weight)
        if not self._dirty:
            self._dirty = True
            self._edge.schedule_flush(self)

    def respond(self, buffers: Sequence[Buffer]) -> None:
        """Respond to a request at once."""
        pending = PendingResponse()
        pending.buffers = buffers
        self._outbox.add(pending)
        self._responded += 1
        if not self._dirty:
            self._dirty = True
            self._edge.schedule_flush(self)

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._sock.fileno()

    def small_message(self) -> bytes | memoryview | None:
        """Completed responses that can be sent together with those of other connections; see `message_sent`."""
        return None if self.closed else self._outbox.small_message()

    def message_sent(self, count: int) -> None:
        """The kernel accepted so many bytes of `small_message`; a negative errno is met again by `flush`."""
        if count > 0:
            self._outbox.sent(count)

    def flush(self) -> None:
        """Send completed responses and continue to read; called once per loop iteration that completed some."""
        self._dirty = False
        self._responded = 0
        if self.closed:
            return
        try:
            self._outbox.send()
        except OSError:
            self.close()
            return
        if self._outbox.blocked:
            if not self._writing:
                self._writing = True
                self._write_since = self._edge.loop.time()
                self._edge.loop.add_writer(self._sock, self._on_writable)
        elif self.draining and self._outbox.empty:
            self.close()
        else:
            self.resume()

    def _on_writable(self) -> None:
        self._active = True
        self._write_since = self._edge.loop.time()
        self.flush()
        if self._writing and not self.closed and not self._outbox.blocked:
            self._writing = False
            self._edge.loop.remove_writer(self._sock)

    def account(self, count: int) -> None:
        """Count bytes that a response occupies in memory (releases, if negative)."""
        self._edge.account(count)

    def response_bytes_max(self) -> int:
        """Return how many bytes of records a response may contain."""
        if not self._edge.exhausted:
            return _UNLIMITED
        return 0 if self._edge.full else _FEW

    # Closing

    def drain(self) -> None:
        """Take no further request; close when the last response is sent."""
        self.draining = True
        self._stop_reading()
        if self.on_drain is not None:
            self.on_drain()
        if self._outbox.empty:
            self.close()

    def check(self, now: float) -> None:
        """Close the connection if its client exceeds a time limit."""
        limits = self._edge.limits
        if self._active:
            self._active = False
            self._last_active = now
        if self._frame_since == _NEW_FRAME:
            self._frame_since = now
        reason = None
        if self._writing:
            if now - self._write_since > limits.write_stall_seconds_max:
                reason = "the client does not read its responses"
        elif self._pending or not self._reading:
            self._frame_since = now
        elif not self._reader.in_frame:
            self._frame_since = now
            if now - self._last_active > limits.idle_seconds_max:
                reason = "idle"
        else:
            self._expect(1)  # what a slow client has sent is received and counted
            spent = now - self._frame_since - limits.frame_start_seconds_max
            rate = limits.frame_bytes_per_second_min
            if self._edge.exhausted:
                rate = limits.exhausted_bytes_per_second_min
            if spent > 0 and self._frame_bytes < spent * rate:
                reason = "the client sends a frame too slowly"
        if reason is not None:
            self._edge.log.info("connection closed", peer=self.peer, reason=reason)
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        edge = self._edge
        self._stop_reading()
        if self._writing:
            edge.loop.remove_writer(self._sock)
        if self._throttle is not None:
            self._throttle.cancel()
        self._sock.close()
        self._reader.close()
        edge.account(-self._in_flight)
        self._outbox.close()
        if self.authentication is not None:
            self.authentication.closed()
        if self.on_close is not None:
            self.on_close()
        edge.connection_closed(self)
