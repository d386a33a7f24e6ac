"""Answers in the order of their requests, and as few system calls as possible to send them.

Each request gets a place when it is taken (`Answer`); only a finished prefix of the places is sent, joined
into one `send` when small and given to one `sendmsg` when not; parts of files go by `sendfile`. What the
kernel does not take waits for the socket to become writable; meanwhile the connection takes no further request.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence

from ottla.broker.net.file_region import FileRegion

Buffer = bytes | memoryview | FileRegion

_IOV_MAX = 1024
_JOIN_BYTES_MAX = 16 * 1024


_MORE = getattr(socket, "MSG_MORE", 0)


class Answer:
    """The place of one answer; `weight` is what its request holds in memory until it is answered."""

    __slots__ = ("buffers", "weight", "when_sent")

    def __init__(self, weight: int = 0) -> None:
        self.weight = weight
        self.buffers: Sequence[Buffer] | None = None
        self.when_sent: Callable[[], None] | None = None


class Outbox:
    """The sending half of one connection."""

    __slots__ = ("_backlog", "_places", "_sock", "_when_sent")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._places: deque[Answer] = deque()
        self._backlog: deque[Buffer] = deque()
        self._when_sent: list[Callable[[], None]] = []

    @property
    def blocked(self) -> bool:
        """True if finished answers wait for the client to read."""
        return bool(self._backlog)

    @property
    def empty(self) -> bool:
        return not self._backlog and not self._places

    def add(self, answer: Answer) -> None:
        self._places.append(answer)

    def send(self) -> None:
        """Send every finished answer as far as the kernel takes it; OSError if the connection is broken."""
        places, backlog = self._places, self._backlog
        while places and (ready := places[0].buffers) is not None:
            answer = places.popleft()
            backlog.extend(ready)
            if answer.when_sent is not None:
                self._when_sent.append(answer.when_sent)
        try:
            while backlog:
                self._drop(self._send_some())
        except (BlockingIOError, InterruptedError):
            return
        if self._when_sent:
            self._run_callbacks()

    def close(self) -> None:
        self._backlog.clear()
        for answer in self._places:
            if answer.when_sent is not None:
                self._when_sent.append(answer.when_sent)
        self._places.clear()
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
        # A file's bytes that follow belong to the same answer: let the kernel fill its packets.
        flags = _MORE if len(chosen) < len(backlog) else 0
        if sum(map(len, chosen)) <= _JOIN_BYTES_MAX:
            return self._sock.send(b"".join(chosen), flags)
        return self._sock.sendmsg(chosen[:_IOV_MAX], (), flags)

    def _drop(self, sent: int) -> None:
        backlog = self._backlog
        while backlog and sent >= len(backlog[0]):
            gone = backlog.popleft()
            sent -= len(gone)
            if isinstance(gone, FileRegion):
                gone.close()
        if not sent:
            return
        first = backlog[0]
        if isinstance(first, FileRegion):
            first.advance(sent)
        else:
            backlog[0] = memoryview(first)[sent:]

    def _run_callbacks(self) -> None:
        callbacks, self._when_sent = self._when_sent, []
        for callback in callbacks:
            callback()
