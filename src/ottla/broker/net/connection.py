"""One client connection: frames in, answers out, in order and under pressure limits.

A request is taken only when every earlier one is answered, except that Produce may follow unanswered Produce
requests. No frame is taken, and after the next readable event the socket is not read either, while

- answers wait for the client to read them,
- too much of this connection is unanswered (bytes or requests), or its next request has to wait its turn,
- it had its share of answers in this turn of the loop, or
- the whole process holds too much and it is not this connection's turn (`Edge.bite`).

`check`, called about once a second, closes a connection that is idle, begins frames without finishing them, or
does not read its answers.

Concurrency: the event loop only. A fault in here or in a handler closes this connection and no other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.base.errors import InvariantViolation, RemoteProtocolError
from ottla.broker.net.outbox import Answer, Buffer, Outbox
from ottla.wire.frame_reader import FrameReader

if TYPE_CHECKING:
    from ottla.broker.net.edge import Edge
    from ottla.broker.net.listeners import Listener
    from ottla.broker.produce.run_produce import ProduceLane

_PRODUCE = 0
# In place of a time: a frame was completed since `check` last looked.
_NEW_FRAME = -1.0
_ALL = 1 << 31
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
        "_in_flight",
        "_last_active",
        "_out_of_turn",
        "_outbox",
        "_pending",
        "_reader",
        "_reading",
        "_replied",
        "_sock",
        "_write_since",
        "_writing",
        "closed",
        "draining",
        "ip",
        "lane",
        "last_produced",
        "listener",
        "on_close",
        "on_drain",
        "peer",
    )

    def __init__(self, edge: Edge, sock: socket.socket, listener: Listener, ip: str, port: int) -> None:
        self._edge = edge
        self._sock = sock
        self.listener = listener
        self.ip = ip
        self.peer = f"{ip}:{port}"
        self.closed = False
        self.draining = False
        self.on_close: Callable[[], None] | None = None
        """What a waiting request wants to know when its client is gone."""
        self.on_drain: Callable[[], None] | None = None
        """What a waiting request wants to know when there is no more time to wait."""
        # What the produce handler remembers of this client: the partition it produced to last, and the short
        # way for more of the same.
        self.last_produced: object = None
        self.lane: ProduceLane | None = None
        self._reader = FrameReader(edge.limits.frame_bytes_max, edge.hold)
        self._outbox = Outbox(sock)
        self._pending = 0
        self._in_flight = 0
        self._exclusive = False
        # The next frame has arrived and waits for earlier answers.
        self._out_of_turn = False
        self._replied = 0
        self._dirty = False
        self._active = True
        self._last_active = self._frame_since = self._write_since = edge.loop.time()
        self._frame_bytes = 0
        self._writing = False
        self._reading = True
        edge.loop.add_reader(sock, self._on_readable)

    # Reading

    def _on_readable(self) -> None:
        edge, reader = self._edge, self._reader
        if self._muted():
            self._stop_reading()
            return
        if edge.exhausted:
            most = edge.bite(self, large=reader.in_large_frame)
            if not most:
                self._stop_reading()
                return
            target = reader.target(edge.receive_view)[:most]
        else:
            target = reader.target(edge.receive_view)
        self._active = True
        try:
            got = self._sock.recv_into(target)
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

    def _take_frames(self) -> None:
        """Handle every complete frame whose turn it is."""
        reader, handle = self._reader, self._edge.handle
        try:
            while not self.closed and not self._muted() and (frame := reader.peek()) is not None:
                if self._pending and not self._pipelines(frame):
                    self._out_of_turn = True
                    return
                self._frame_bytes = 0
                self._frame_since = _NEW_FRAME
                if self._edge.exhausted:
                    self._edge.finished(self)
                if self.lane is not None and not reader.in_large_frame and self.lane.take(self, reader):
                    continue
                reader.drop(frame)
                handle(self, frame)
        except RemoteProtocolError as error:
            self._edge.log.info("connection closed", peer=self.peer, reason=str(error))
            self.close()
        except InvariantViolation:
            self.close()
            raise
        except Exception:
            self._edge.log.exception("request failed", peer=self.peer)
            self.close()

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
            or self._replied >= limits.connection_replies_max
            or self._out_of_turn
        )

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._edge.loop.remove_reader(self._sock)

    def resume(self) -> None:
        """Take frames that had to wait, then read on."""
        self._out_of_turn = False
        if self.closed or self._muted():
            return
        self._take_frames()
        if not self.closed and not self._reading and not self._muted():
            self._reading = True
            self._edge.loop.add_reader(self._sock, self._on_readable)

    # Answering

    def expect(self, answer: Answer, *, exclusive: bool) -> None:
        """Keep a place for an answer that is not there yet; while `exclusive`, no other request is taken."""
        self._outbox.add(answer)
        self._pending += 1
        self._exclusive = exclusive
        if answer.weight:
            self._in_flight += answer.weight
            self._edge.hold(answer.weight)

    def finish(self, answer: Answer, buffers: Sequence[Buffer]) -> None:
        """Fill the place that `expect` kept."""
        if self.closed:
            if answer.when_sent is not None:
                answer.when_sent()
            return
        answer.buffers = buffers
        self._pending -= 1
        self._exclusive = False
        if answer.weight:
            self._in_flight -= answer.weight
            self._edge.hold(-answer.weight)
        if not self._dirty:
            self._dirty = True
            self._edge.touch(self)

    def reply(self, buffers: Sequence[Buffer]) -> None:
        """Answer a request at once."""
        answer = Answer()
        answer.buffers = buffers
        self._outbox.add(answer)
        self._replied += 1
        if not self._dirty:
            self._dirty = True
            self._edge.touch(self)

    def flush(self) -> None:
        """Send what is finished and go on reading; called once for each loop turn that finished something."""
        self._dirty = False
        self._replied = 0
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

    def hold(self, count: int) -> None:
        """Count bytes that an answer keeps in memory (or gives back, if negative)."""
        self._edge.hold(count)

    def record_room(self) -> int:
        """How many bytes of records an answer may bring, be there as many."""
        if not self._edge.exhausted:
            return _ALL
        return 0 if self._edge.full else _FEW

    # Ending

    def drain(self) -> None:
        """Take no further request; close when the last one is answered."""
        self.draining = True
        self._stop_reading()
        if self.on_drain is not None:
            self.on_drain()
        if self._outbox.empty:
            self.close()

    def check(self, now: float) -> None:
        """Close the connection if its client has used up our patience."""
        limits = self._edge.limits
        if self._active:
            self._active = False
            self._last_active = now
        if self._frame_since == _NEW_FRAME:
            self._frame_since = now
        reason = None
        if self._writing:
            if now - self._write_since > limits.write_stall_seconds_max:
                reason = "does not read its answers"
        elif self._pending or not self._reading:
            self._frame_since = now
        elif not self._reader.in_frame:
            self._frame_since = now
            if now - self._last_active > limits.idle_seconds_max:
                reason = "idle"
        else:
            spent = now - self._frame_since - limits.frame_start_seconds_max
            rate = limits.frame_bytes_per_second_min
            if self._edge.exhausted:
                rate = limits.exhausted_bytes_per_second_min
            if spent > 0 and self._frame_bytes < spent * rate:
                reason = "frame comes too slowly"
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
        self._sock.close()
        self._reader.close()
        edge.hold(-self._in_flight)
        self._outbox.close()
        if self.on_close is not None:
            self.on_close()
        edge.left(self)
