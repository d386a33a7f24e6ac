"""Responses of a connection in the order of its requests, sent with as few system calls as possible.

Each request that is taken reserves a slot (`PendingResponse`). Only a completed prefix of the slots is sent: joined
into one `send` if it is small, with one `sendmsg` otherwise; regions of files are sent with `sendfile`. What the
kernel does not accept waits until the socket is writable; meanwhile the connection takes no further request.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.net.file_region import FileRegion

if TYPE_CHECKING:
    from ottla.broker.metrics.request_times import ResponseTimer

Buffer = bytes | memoryview | FileRegion

_IOV_MAX = 1024
_JOIN_BYTES_MAX = 16 * 1024


_MORE = getattr(socket, "MSG_MORE", 0)


class PendingResponse:
    """The slot of one response.

    `weight` is the number of bytes that its request occupies until it is completed, `buffers` is None until then.
    `on_sent` is called when the response has been sent or can no longer be sent.
    """

    __slots__ = ("buffers", "on_sent", "weight")

    def __init__(self, weight: int = 0) -> None:
        self.weight = weight
        self.buffers: Sequence[Buffer] | None = None
        self.on_sent: Callable[[], None] | None = None


class Outbox:
    """The sending half of one connection."""

    __slots__ = ("_backlog", "_callbacks", "_slots", "_sock", "timer")

    def __init__(self, sock: socket.socket, timer: ResponseTimer | None = None) -> None:
        self._sock = sock
        self.timer = timer
        """Measures the times of requests; None without an endpoint for metrics."""
        self._slots: deque[PendingResponse] = deque()
        self._backlog: deque[Buffer] = deque()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def blocked(self) -> bool:
        """True if completed responses wait until the client reads."""
        return bool(self._backlog)

    @property
    def empty(self) -> bool:
        return not self._backlog and not self._slots

    def add(self, pending: PendingResponse) -> None:
        self._slots.append(pending)

    def small_message(self) -> bytes | memoryview | None:
        """The completed responses if they are small and nothing else is to be sent before them.

        The caller sends them, and reports with `sent` how much the kernel accepted.
        """
        backlog = self._backlog
        if backlog:
            return None
        self._take_completed()
        if any(isinstance(each, FileRegion) for each in backlog) or sum(map(len, backlog)) > _JOIN_BYTES_MAX:
            return None
        if len(backlog) > 1:
            joined = b"".join(backlog)  # type: ignore[arg-type] # no region of a file
            backlog.clear()
            backlog.append(joined)
        return backlog[0] if backlog else None  # type: ignore[return-value]

    def sent(self, count: int) -> None:
        """Remove the first bytes, which the caller has sent."""
        self._drop(count)

    def send(self) -> None:
        """Send the completed responses as far as the kernel accepts them; OSError if the connection is broken."""
        self._take_completed()
        backlog = self._backlog
        try:
            while backlog:
                self._drop(self._send_some())
        except (BlockingIOError, InterruptedError):
            return
        if self._callbacks:
            self._run_callbacks()

    def _take_completed(self) -> None:
        slots, backlog = self._slots, self._backlog
        while slots and (ready := slots[0].buffers) is not None:
            pending = slots.popleft()
            backlog.extend(ready)
            if pending.on_sent is not None:
                self._callbacks.append(pending.on_sent)
            if self.timer is not None:
                self.timer.sent()

    def close(self) -> None:
        self._backlog.clear()
        for pending in self._slots:
            if pending.on_sent is not None:
                self._callbacks.append(pending.on_sent)
        self._slots.clear()
        self._run_callbacks()

    def _send_some(self) -> int:
        backlog = self._backlog
        first = backlog[0]
        if isinstance(first, FileRegion):
            return first.send(self._sock)
        if len(backlog) == 1:
            return self._sock.send(first)
        chosen: list[bytes | memoryview] = []
        for buffer in backlog:
            if isinstance(buffer, FileRegion):
                break
            chosen.append(buffer)
        # A file's bytes that follow belong to the same response: let the kernel fill its packets.
        flags = _MORE if len(chosen) < len(backlog) else 0
        if sum(map(len, chosen)) <= _JOIN_BYTES_MAX:
            return self._sock.send(b"".join(chosen), flags)
        return self._sock.sendmsg(chosen[:_IOV_MAX], (), flags)

    def _drop(self, sent: int) -> None:
        backlog = self._backlog
        while backlog and sent >= len(backlog[0]):
            buffer = backlog.popleft()
            sent -= len(buffer)
            if isinstance(buffer, FileRegion):
                buffer.close()
        if not sent:
            return
        first = backlog[0]
        if isinstance(first, FileRegion):
            first.advance(sent)
        else:
            backlog[0] = memoryview(first)[sent:]

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
