"""Origin of a request: the listener, the address and the principal of its client.

A connection has one origin, which is replaced when the client authenticates. A forwarded request has the origin that
its Envelope describes.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.net.listeners import Listener
from ottla.security.acls.decisions import Decisions
from ottla.security.principal import ANONYMOUS, Principal


class Origin:
    """Where a request comes from. `decisions` and `api_key` are for `broker.authorization` only."""

    __slots__ = ("_port", "api_key", "decisions", "forwarded", "ip", "listener", "peer", "principal")

    def __init__(
        self, listener: Listener, ip: str, port: int | None, principal: Principal = ANONYMOUS
    ) -> None:
        self.listener: Final = listener
        self.ip: Final = ip
        self._port: Final = port
        self.peer: Final = ip if port is None else f"{ip}:{port}"
        """Address and port, for messages."""
        self.principal: Final = principal
        self.forwarded: Final = port is None
        """Whether a broker has forwarded the request; then the listener is the one that the broker has used."""
        self.decisions: Decisions | None = None
        """What the authorizer has decided about this client."""
        self.api_key = -1
        """The API of the current request, for audit lines; set only if there is an authorizer."""

    def authenticated(self, principal: Principal) -> Origin:
        """The origin of the requests that follow after the client has authenticated."""
        return Origin(self.listener, self.ip, self._port, principal)
