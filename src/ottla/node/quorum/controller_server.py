"""The server of the controller listeners: requests of voters, observers, brokers and tools to a controller.

The sockets are bound first. Until the cluster of the node is known only the APIs that found a cluster are served;
`serve` replaces them, and closes the connections, so that the other side negotiates the APIs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.base.errors import InvariantViolation
from ottla.broker.net.edge import Edge
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.server import Server
from ottla.broker.registry import BoundRoute
from ottla.broker.router import Router

if TYPE_CHECKING:
    import socket

    from structlog.typing import FilteringBoundLogger

    from ottla.broker.net.authentication import SaslListener
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.limits import Limits
    from ottla.broker.net.tls_listeners import TlsListeners

_DRAIN_SECONDS: Final = 1.0


class ControllerServer:
    """The controller listeners of one node."""

    def __init__(
        self,
        listen: Callable[[Listener], socket.socket],
        limits: Limits,
        on_violation: Callable[[InvariantViolation], None],
        log: FilteringBoundLogger,
        tls: TlsListeners | None,
        sasl: Mapping[str, SaslListener],
        *,
        audited: bool,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_violation = on_violation
        self._log = log
        self._audited = audited
        self._edge = Edge(self._loop, limits, {}, log, tls=tls, sasl_listeners=sasl)
        self._server = Server(self._edge, listen)
        self._serving = False

    def bind(self, listeners: Sequence[Listener]) -> list[Listener]:
        """Open the sockets; returns the listeners with their real ports."""
        return self._server.bind(listeners)

    @property
    def connections(self) -> Iterable[Connection]:
        """The open connections."""
        return self._edge.connections

    def serve(self, handlers: dict[int, BoundRoute]) -> None:
        """Serve these APIs, in place of those before."""
        router = Router(handlers, self._on_violation, self._log, audited=self._audited)
        self._edge.handlers = {ListenerType.CONTROLLER: router}
        if self._serving:
            self._server.abort()
        else:
            self._serving = True
            self._server.serve()

    async def stop(self) -> None:
        """Finish the requests in flight and close."""
        drained = asyncio.Event()
        self._server.stop(drained.set)
        try:
            await asyncio.wait_for(drained.wait(), _DRAIN_SECONDS)
        except TimeoutError:
            self._server.abort()
