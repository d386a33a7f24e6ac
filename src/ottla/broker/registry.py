"""The table of APIs this broker answers: each handler registers itself, ApiVersions is derived from the table.

A handler is a function of (request, call), plain or async, that returns the response message. It turns
refusals into the error places of its own response; whatever else it raises closes the one connection and
is logged. A handler may also return `bytes`: a body it has already encoded for `call.api_version`.

Versions outside `versions` are not parsed. `advertised` differs from it in two places only (Produce lists
versions it refuses, GetTelemetrySubscriptions is answered but not listed), as Kafka 4.3 does. The newest version of
an API may be listed only where a setting is on (InitProducerId).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.base.errors import invariant
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.listeners import Listener
    from ottla.broker.services import Broker
    from ottla.config.broker import BrokerConfig

Request = TypeVar("Request")
Answer = TypeVar("Answer")  # a response or, from an async handler, a promise of one
Handler = Callable[[Any, "Call"], Any]
RawHandler = Callable[[memoryview, int, "Call"], None]


class Call:
    """The circumstances of one request: who asked, in which version, through which listener."""

    __slots__ = ("api_version", "broker", "client_id", "connection", "correlation_id", "listener")

    def __init__(
        self,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection: Connection,
        broker: Broker,
    ) -> None:
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.listener: Listener = connection.listener
        self.broker = broker


class Route(NamedTuple):
    """One API: how its requests are read and who answers them."""

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int] | None
    request: type | None
    handler: Handler | RawHandler
    newest_needs: str | None = None
    """The setting without which the newest version is answered, but not listed."""

    def listed(self, config: BrokerConfig) -> tuple[int, int] | None:
        """The versions that clients are told of; None if the API is not listed."""
        if self.advertised is None or self.newest_needs is None or config.bool(self.newest_needs):
            return self.advertised
        return self.advertised[0], self.advertised[1] - 1


ROUTES: dict[int, Route] = {}


def _add(route: Route) -> None:
    invariant(route.api_key not in ROUTES, f"{route.api_key.name} has two handlers")
    ROUTES[route.api_key] = route


def handles(
    api_key: ApiKey,
    request: type[Request],
    *,
    versions: tuple[int, int],
    listed: bool = True,
    newest_needs: str | None = None,
) -> Callable[
    [Callable[[Request, Call], Answer]],
    Callable[[Request, Call], Answer],
]:
    """Register a handler of decoded requests."""

    def register(
        handler: Callable[[Request, Call], Answer],
    ) -> Callable[[Request, Call], Answer]:
        _add(Route(api_key, versions, versions if listed else None, request, handler, newest_needs))
        return handler

    return register


def handles_frames(
    api_key: ApiKey, *, versions: tuple[int, int], advertised: tuple[int, int] | None = None
) -> Callable[[RawHandler], RawHandler]:
    """Register a handler that reads the frame itself (a hot codec) and answers through the connection.

    It is given the frame, the position of the body in it, and the call.
    """

    def register(handler: RawHandler) -> RawHandler:
        _add(Route(api_key, versions, advertised or versions, None, handler))
        return handler

    return register
