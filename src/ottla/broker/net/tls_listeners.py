"""TLS of the listeners of a node: the configuration of each listener, and the handshakes that are computed at once.

A handshake step takes up to a millisecond of computation. Steps run beside the event loop, a few at a time, so that
neither requests nor disk work wait for a burst of new connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.base.buffers import lazy_buffer
from ottla.base.executor import Done, Executor, Work

if TYPE_CHECKING:
    from ottla.security.tls.endpoints import ServerTls

_AT_ONCE: Final = 2
_RECEIVE_BYTES: Final = 256 * 1024


class TlsListeners:
    """Shared by all connections with TLS of one event loop."""

    def __init__(self, servers: Mapping[str, ServerTls], executor: Executor) -> None:
        self.servers = servers
        """The configuration by the name of the listener."""
        self.receive_view = lazy_buffer(_RECEIVE_BYTES)
        """Where encrypted bytes are received, before they are decrypted."""
        self._executor = executor
        self._waiting: deque[tuple[Work, Done]] = deque()
        self._running = 0

    def compute(self, work: Work, done: Done) -> None:
        """Run a handshake step beside the event loop, then call `done` on it."""
        self._waiting.append((work, done))
        self._start()

    def _start(self) -> None:
        while self._waiting and self._running < _AT_ONCE:
            work, done = self._waiting.popleft()
            self._running += 1
            self._executor.submit(work, lambda error, done=done: self._finished(done, error))  # type: ignore[misc]

    def _finished(self, done: Done, error: BaseException | None) -> None:
        self._running -= 1
        self._start()
        done(error)
