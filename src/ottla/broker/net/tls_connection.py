"""A client connection with TLS: the handshake, then the same requests and responses as on a plain connection.

During the handshake no request is taken, at most `Limits.handshake_bytes_max` bytes are received, and the connection
is closed after `Limits.handshake_seconds_max`. Only complete records are passed to OpenSSL, which needs 70 KiB to wait
within a record. Each step is computed beside the event loop; meanwhile nothing is read.
The client's certificate, if the listener requests one, determines the principal, unless the listener uses SASL.

Decrypted bytes can wait within TLS although the socket has none. Therefore reading continues in a later iteration of
the loop without an event of the socket.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from ottla.base.errors import LocalError
from ottla.broker.net.connection import Connection
from ottla.broker.net.origin import Origin
from ottla.broker.net.tls_outbox import TlsOutbox
from ottla.security.tls.stream import RECORD_BYTES, describe

if TYPE_CHECKING:
    from ottla.broker.net.edge import Edge
    from ottla.broker.net.listeners import Listener
    from ottla.broker.net.tls_listeners import TlsListeners

_HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection: the record type of handshake messages."""
_RECORD_HEADER: Final = 5
_RECORD_OVERHEAD: Final = 512


class TlsConnection(Connection):
    """The state of one connection with TLS."""

    __slots__ = (
        "_computing",
        "_handshake_bytes",
        "_handshake_ends",
        "_port",
        "_record",
        "_server",
        "_stream",
        "_tls",
    )

    sends_files: ClassVar[bool] = False

    def __init__(
        self, edge: Edge, sock: socket.socket, listener: Listener, ip: str, port: int, tls: TlsListeners
    ) -> None:
        super().__init__(edge, sock, listener, ip, port)
        self._port = port
        self._tls = tls
        self._server = tls.servers[listener.name]
        self._stream = self._server.new_stream()
        self._outbox = TlsOutbox(sock, self._stream, self._timer)
        self._receive = self._receive_decrypted  # type: ignore[assignment]
        # An incomplete record of the handshake.
        self._record = b""
        self._handshake_bytes = 0
        self._handshake_ends = edge.loop.time() + edge.limits.handshake_seconds_max
        self._computing = False

    # Reading

    def _on_readable(self) -> None:
        if not self._stream.established:
            self._receive_handshake()
            return
        super()._on_readable()
        self._read_pending()

    def small_message(self) -> None:
        """Nothing: responses are encrypted when they are sent."""

    def _expect(self, count: int) -> None:
        """Nothing: received bytes are decrypted before they are counted."""

    def resume(self) -> None:
        super().resume()
        self._read_pending()

    def _read_pending(self) -> None:
        """Continue to read if TLS has bytes for which the socket reports no event."""
        if self._reading and not self.closed and self._stream.established and self._stream.pending:
            self._edge.loop.call_soon(self._on_pending)

    def _on_pending(self) -> None:
        if self._reading and not self.closed and self._stream.pending:
            self._on_readable()

    def _receive_decrypted(self, target: memoryview) -> int:
        """As `recv_into` of a socket."""
        stream = self._stream
        if stream.pending:
            count = stream.read_into(target)
            if count or stream.ended:
                return count
        encrypted = self._tls.receive_view[: max(RECORD_BYTES, len(target)) + _RECORD_OVERHEAD]
        received = self._sock.recv_into(encrypted)
        if not received:
            return 0
        stream.receive(encrypted[:received])
        count = stream.read_into(target)
        if not count and not stream.ended:
            raise BlockingIOError
        return count

    # The handshake

    def _receive_handshake(self) -> None:
        allowed = self._edge.limits.handshake_bytes_max - self._handshake_bytes
        if allowed <= 0:
            self._refuse("the messages of the TLS handshake are too large")
            return
        received = self._tls.receive_view[:allowed]
        try:
            count = self._sock.recv_into(received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self.close()
            return
        if not self._handshake_bytes and received[0] != _HANDSHAKE:
            self._refuse("the client does not use TLS, but the listener requires it")
            return
        self._handshake_bytes += count
        data = self._record + bytes(received[:count])
        complete = _complete_records(data)
        self._record = data[complete:]
        if not complete:
            return
        self._stop_reading()
        self._stream.receive(memoryview(data)[:complete])
        self._computing = True
        self._tls.compute(self._stream.handshake, self._step_done)

    def _step_done(self, error: BaseException | None) -> None:
        self._computing = False
        if self.closed:
            return
        if error is not None:
            self._refuse(f"the TLS handshake failed: {describe(error)}")
            return
        if self._stream.established and not self._authenticate():
            return
        self._active = True
        self.flush()

    def _authenticate(self) -> bool:
        """Determine the principal after the handshake; False if the connection is refused."""
        self._stream.receive(memoryview(self._record))
        self._record = b""
        if self.listener.protocol.uses_sasl:
            return True
        try:
            principal = self._server.principal_of(self._stream)
        except (LocalError, ValueError) as refused:
            self._refuse(str(refused))
            return False
        self.origin = Origin(self.listener, self.ip, self._port, principal)
        return True

    def _refuse(self, reason: str) -> None:
        self._edge.log.info("connection closed", peer=self.peer, listener=self.listener.name, reason=reason)
        self.close()

    # Closing

    def check(self, now: float) -> None:
        if self._stream.established:
            super().check(now)
        elif now > self._handshake_ends:
            self._refuse("the TLS handshake was not completed in time")

    def close(self) -> None:
        if not self.closed and not self._computing:
            self._send_last()
        super().close()

    def _send_last(self) -> None:
        """Send an alert, or the announcement of the end, if nothing else waits to be sent."""
        if self._outbox.blocked:
            return
        if self._stream.established:
            self._stream.end()
        output = self._stream.take_output()
        if output:
            with suppress(OSError):
                self._sock.send(output)


def _complete_records(data: bytes) -> int:
    """The size of the complete records at the beginning of `data`."""
    position = 0
    while len(data) - position >= _RECORD_HEADER:
        end = position + _RECORD_HEADER + int.from_bytes(data[position + 3 : position + 5], "big")
        if end > len(data):
            break
        position = end
    return position
