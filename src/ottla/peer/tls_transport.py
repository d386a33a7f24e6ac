"""TLS above the transport of a socket. What is sent during the handshake waits until it is complete.

A failed handshake, for example with a certificate that is not trusted, is reported as a failure of the connection. Its
steps are computed on the event loop: connections to other nodes are few, and opened rarely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla.peer.transport import Buffer, Transport
from ottla.security.tls.stream import RECORD_BYTES, TlsStream

_RECEIVE_BYTES: Final = 4 * RECORD_BYTES
_JOIN_BYTES_MAX: Final = 256 * 1024


class TlsTransport:
    """A transport that encrypts what another transport sends, and decrypts what it receives."""

    def __init__(self, loop: asyncio.AbstractEventLoop, below: Transport, stream: TlsStream) -> None:
        self._loop = loop
        self._below = below
        self._stream = stream
        self._waiting: list[Buffer] = []
        self._received = memoryview(bytearray(_RECEIVE_BYTES))
        self._on_readable: Callable[[], None] = _ignore
        self._on_failed: Callable[[OSError], None] = lambda _: None
        self._scheduled = False
        self._closed = False

    def start(self, on_readable: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        self._on_readable = on_readable
        self._on_failed = on_failed
        self._below.start(self._readable, on_failed)
        self._stream.handshake()
        self._send_output()

    def receive_into(self, target: memoryview) -> int:
        stream = self._stream
        if not stream.pending:
            count = self._below.receive_into(self._received)
            if not count:
                return 0
            stream.receive(self._received[:count])
        count = stream.read_into(target)
        if stream.pending:
            self._read_pending()
        if not count and not stream.ended:
            raise BlockingIOError
        return count

    def expect(self, count: int) -> None:
        """Nothing: received bytes are decrypted before they are counted."""

    def send(self, buffers: Sequence[Buffer]) -> None:
        if self._closed:
            return
        if not self._stream.established:
            self._waiting += buffers
            return
        if sum(map(len, buffers)) <= _JOIN_BYTES_MAX:
            self._stream.encrypt(b"".join(buffers))
        else:
            for buffer in buffers:
                self._stream.encrypt(buffer)
        self._send_output()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._stream.established:
            self._stream.end()
            self._send_output()
        self._waiting.clear()
        self._below.close()

    def _readable(self) -> None:
        if self._stream.established:
            self._on_readable()
            return
        try:
            self._continue_handshake()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._send_output()
            self._on_failed(error)

    def _continue_handshake(self) -> None:
        count = self._below.receive_into(self._received)
        if not count:
            raise OSError("the connection was closed during the TLS handshake")
        self._stream.receive(self._received[:count])
        self._stream.handshake()
        self._send_output()
        if self._stream.established:
            waiting, self._waiting = self._waiting, []
            if waiting:
                self.send(waiting)
            if self._stream.pending:
                self._read_pending()

    def _send_output(self) -> None:
        output = self._stream.take_output()
        if output:
            self._below.send([output])

    def _read_pending(self) -> None:
        """Call back in a later iteration: decrypted bytes wait although the socket has none."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pending_readable)

    def _pending_readable(self) -> None:
        self._scheduled = False
        if not self._closed and self._stream.pending:
            self._on_readable()


def _ignore() -> None:
    """Nothing reads before `start`."""
