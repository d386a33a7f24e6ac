"""One TLS connection without a socket: encrypted bytes in and out, plain bytes in and out.

The owner passes received bytes to `receive` and sends what `take_output` returns. `handshake` is called after each
`receive` until it returns True; it is computation of up to a millisecond and may be called by another thread, while no
other method is called. After that, `read_into` and `encrypt` are used.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

RECORD_BYTES: Final = 16 * 1024
"""The largest amount of plain bytes in one record."""


class TlsStream:
    __slots__ = ("_incoming", "_object", "_outgoing", "ended", "established")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=host
        )
        self.established = False
        self.ended = False
        """Whether the other side has announced that it sends nothing more."""

    def handshake(self) -> None:
        """Continue the handshake with what was received; `established` is set at its end. ssl.SSLError if it fails."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.established = True

    def receive(self, data: memoryview) -> None:
        self._incoming.write(data)

    @property
    def pending(self) -> bool:
        """Whether `read_into` may return bytes without a further `receive`."""
        return bool(self._incoming.pending or self._object.pending())

    def read_into(self, target: memoryview) -> int:
        """Decrypt into `target`; 0 if no record is complete or the stream has ended. ssl.SSLError if it is invalid."""
        tls, incoming = self._object, self._incoming
        position, size = 0, len(target)
        try:
            while position < size:
                count: int = tls.read(size - position, target[position:] if position else target)  # type: ignore[assignment]
                if not count:
                    self.ended = True
                    break
                position += count
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            pass
        return position

    def encrypt(self, data: bytes | memoryview) -> None:
        """Add plain bytes to the output."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]

    def take_output(self) -> bytes:
        """The bytes to send; each is returned once."""
        return self._outgoing.read()

    def end(self) -> None:
        """Add the announcement that nothing more is sent to the output."""
        with suppress(ssl.SSLError):
            self._object.unwrap()

    def peer_certificate(self) -> bytes | None:
        """The verified certificate of the other side, DER; None without one."""
        return self._object.getpeercert(binary_form=True)


def describe(error: BaseException) -> str:
    """The cause of a failed handshake in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the other side is not accepted: {error.verify_message}"
    reason = getattr(error, "reason", None)
    return str(error) if reason is None else reason.lower().replace("_", " ")
