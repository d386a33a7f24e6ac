"""Bytes of one connection, below the framing. `tls_transport` has a transport that encrypts above another one.

A transport calls back from the event loop only, and never from within one of its own methods.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ottla.base.low_water_mark import LowWaterMark

Buffer = bytes | memoryview

_IOV_MAX: Final = 512
_JOIN_BYTES_MAX: Final = 16 * 1024


class Transport(Protocol):
    """Both directions of one open connection."""

    def start(self, on_readable: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        """Begin to call `on_readable` while bytes or the end of the stream can be received, `on_failed` once if
        sending fails."""
        ...

    def receive_into(self, target: memoryview) -> int:
        """Receive bytes; 0 at the end of the stream. Raise BlockingIOError if there are none, OSError on failure."""
        ...

    def expect(self, count: int) -> None:
        """Allow the transport to call `on_readable` only when `count` bytes have arrived; 1 for any bytes."""
        ...

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send the buffers, now or when the other side has room. They must not change until they are sent."""
        ...

    def close(self) -> None:
        """Close the connection; nothing is called back after this."""
        ...


class SocketTransport:
    """A transport over a connected, non-blocking socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self._loop = loop
        self._sock = sock
        self._unsent: deque[Buffer] = deque()
        self._writing = False
        self._closed = False
        self._mark = LowWaterMark(sock)
        self._on_failed: Callable[[OSError], None] = lambda _: None

    def start(self, on_readable: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        self._on_failed = on_failed
        self._loop.add_reader(self._sock, on_readable)

    def receive_into(self, target: memoryview) -> int:
        return self._sock.recv_into(target)

    def expect(self, count: int) -> None:
        self._mark.set(count)

    def send(self, buffers: Sequence[Buffer]) -> None:
        if self._closed:
            return
        self._unsent.extend(buffers)
        if self._writing:
            return
        try:
            self._send_unsent()
        except OSError as error:
            self._unsent.clear()
            self._loop.call_soon(self._report_failure, error)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._unsent.clear()
        self._loop.remove_reader(self._sock)
        if self._writing:
            self._loop.remove_writer(self._sock)
        self._sock.close()

    def _on_writable(self) -> None:
        try:
            self._send_unsent()
        except OSError as error:
            self._report_failure(error)
            return
        if not self._unsent:
            self._writing = False
            self._loop.remove_writer(self._sock)

    def _send_unsent(self) -> None:
        try:
            while self._unsent:
                self._drop(self._send_some())
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sock, self._on_writable)

    def _send_some(self) -> int:
        unsent = self._unsent
        if len(unsent) == 1:
            return self._sock.send(unsent[0])
        chosen = [unsent[index] for index in range(min(len(unsent), _IOV_MAX))]
        if sum(map(len, chosen)) <= _JOIN_BYTES_MAX:
            return self._sock.send(b"".join(chosen))
        return self._sock.sendmsg(chosen)

    def _drop(self, sent: int) -> None:
        unsent = self._unsent
        while unsent and sent >= len(unsent[0]):
            sent -= len(unsent.popleft())
        if sent:
            unsent[0] = memoryview(unsent[0])[sent:]

    def _report_failure(self, error: OSError) -> None:
        if not self._closed:
            self._on_failed(error)
