"""The outbox of a connection with TLS: responses are encrypted when the socket has room for them.

Plain bytes wait in their order, and become encrypted a portion at a time. So the encrypted copy of a large response is
small, and encryption stops when the client does not read. Regions of files cannot be sent: `sendfile` would send them
without encryption.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Final

from ottla.base.errors import invariant
from ottla.broker.net.file_region import FileRegion
from ottla.broker.net.outbox import Outbox

if TYPE_CHECKING:
    from ottla.broker.metrics.request_times import ResponseTimer
    from ottla.security.tls.stream import TlsStream

_PORTION_BYTES: Final = 256 * 1024
_JOIN_BYTES_MAX: Final = 16 * 1024


class TlsOutbox(Outbox):
    """The sending half of one connection with TLS. The backlog of the base class has encrypted bytes only."""

    __slots__ = ("_plain", "_stream")

    def __init__(self, sock: socket.socket, stream: TlsStream, timer: ResponseTimer | None = None) -> None:
        super().__init__(sock, timer)
        self._stream = stream
        self._plain: deque[bytes | memoryview] = deque()

    @property
    def empty(self) -> bool:
        return not self._backlog and not self._plain and not self._slots

    def send(self) -> None:
        """Send the completed responses as far as the kernel accepts them; OSError if the connection is broken."""
        self._take_completed()
        backlog = self._backlog
        self.add_output()
        try:
            while True:
                while backlog:
                    self._drop(self._send_some())
                if not self._plain:
                    break
                self._encrypt_portion()
        except (BlockingIOError, InterruptedError):
            return
        if self._callbacks:
            self._run_callbacks()

    def add_output(self) -> None:
        """Send what TLS itself has to send, such as the messages of a handshake, before the next response."""
        output = self._stream.take_output()
        if output:
            self._backlog.append(output)

    def close(self) -> None:
        self._plain.clear()
        super().close()

    def _take_completed(self) -> None:
        slots, plain = self._slots, self._plain
        while slots and (ready := slots[0].buffers) is not None:
            pending = slots.popleft()
            for buffer in ready:
                invariant(not isinstance(buffer, FileRegion), "no file is sent on a connection with TLS")
                if buffer:
                    plain.append(buffer)  # type: ignore[arg-type]
            if pending.on_sent is not None:
                self._callbacks.append(pending.on_sent)
            if self.timer is not None:
                self.timer.sent()

    def _encrypt_portion(self) -> None:
        """Encrypt some plain bytes; small buffers share a record."""
        plain, stream = self._plain, self._stream
        remaining = _PORTION_BYTES
        while plain and remaining > 0:
            small: list[bytes | memoryview] = []
            size = 0
            while plain and size + len(plain[0]) <= _JOIN_BYTES_MAX:
                buffer = plain.popleft()
                size += len(buffer)
                small.append(buffer)
            if small:
                stream.encrypt(small[0] if len(small) == 1 else b"".join(small))
            else:
                buffer = plain[0]
                size = min(len(buffer), remaining)
                stream.encrypt(memoryview(buffer)[:size])
                if size == len(buffer):
                    plain.popleft()
                else:
                    plain[0] = memoryview(buffer)[size:]
            remaining -= size
        self.add_output()
