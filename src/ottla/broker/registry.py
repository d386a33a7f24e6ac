"""Declarations of the APIs: each handler class declares its API, versions, listeners and dependencies.

A handler is a class with a method `handle`, mostly a frozen dataclass. The parameters of its constructor are the parts
of the node that it uses, by their names in `broker.dependencies`; it gets nothing else. `@handles`
declares a handler of decoded requests: `handle(request, call)` returns the response message, `bytes` (a body already
encoded for `call.api_version`), or a promise of either; it may also be a coroutine function. `@handles_frames` declares
a handler that reads the frame itself and responds through the connection.

Every handler declares the rights that its clients need (`broker.requirements`); without this declaration it cannot be
registered. A right on the whole cluster is checked here, before `handle` is called; rights on single resources are
checked by the handler.

A handler puts errors into the error fields of its response. Any other exception closes the connection and is
logged.

Declarations are immutable and belong to the process; `Handlers` creates the handlers of one node from them.

Versions outside `versions` are not parsed. `advertised` differs from `versions` in one case only, as in Kafka 4.3:
Produce lists versions that it refuses. The APIs of client telemetry are listed only if the broker serves metrics. The
newest version of an API may be listed only if a setting is on (InitProducerId).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode, invariant
from ottla.base.promise import Promise
from ottla.broker.forwarding.refusals import refuse
from ottla.broker.net.listeners import ListenerType
from ottla.broker.net.origin import Origin
from ottla.broker.requirements import Requirement
from ottla.security.resources import CLUSTER, ResourceType
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.net.connection import Connection
    from ottla.config.broker import BrokerConfig

H = TypeVar("H")
Handle = Callable[[Any, "Call"], Any]
"""Handle a decoded request; returns a response or a promise of one."""
HandleFrame = Callable[["Connection", memoryview, int, "Call"], None]
"""Handle a frame whose body starts at the given position; responds through the connection."""

BROKER = frozenset({ListenerType.BROKER})
CONTROLLER = frozenset({ListenerType.CONTROLLER})
BROKER_AND_CONTROLLER = frozenset(ListenerType)


class Call:
    """The context of one request: its version, its client and its origin."""

    __slots__ = ("api_version", "client_id", "correlation_id", "origin", "started", "throttle_ms")

    def __init__(self, api_version: int, correlation_id: int, client_id: str | None, origin: Origin) -> None:
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.origin = origin
        self.started = 0.0
        """When the handling started; 0 if its time is not counted."""
        self.throttle_ms = 0
        """The throttle time of the response."""


class Route(NamedTuple):
    """The declaration of one API on some types of listeners."""

    api_key: ApiKey
    versions: tuple[int, int]
    advertised: tuple[int, int] | None
    request: type | None
    """The message to decode; None if the handler reads the frame itself."""
    handler: type
    requires: Requirement
    listeners: frozenset[ListenerType] = BROKER
    newest_needs: str | None = None
    """The setting without which the newest version is served but not listed."""
    forwarded: bool = False
    """Whether a broker that is not the active controller forwards the request to it."""
    telemetry: bool = False
    """Whether the API is listed only if this broker keeps the metrics of clients."""

    def listed(self, config: BrokerConfig) -> tuple[int, int] | None:
        """Return the versions that ApiVersions lists; None if it does not list the API."""
        if self.advertised is None or self.newest_needs is None or config.bool(self.newest_needs):
            return self.advertised
        return self.advertised[0], self.advertised[1] - 1


class BoundRoute(NamedTuple):
    """An API as one node serves it."""

    api_key: ApiKey
    versions: tuple[int, int]
    request: type | None
    handle: Callable[..., Any]
    """A `Handle`, or a `HandleFrame` if `request` is None."""
    forwarded: bool = False


class ListedApis:
    """The APIs and versions that ApiVersions lists, for each type of listener."""

    def __init__(self, routes: Iterable[Route], config: BrokerConfig, *, telemetry: bool = False) -> None:
        self._listed: dict[ListenerType, dict[ApiKey, tuple[int, int]]] = {each: {} for each in ListenerType}
        for route in sorted(routes, key=lambda each: each.api_key):
            versions = route.listed(config)
            if versions is not None and (telemetry or not route.telemetry):
                for listener_type in route.listeners:
                    self._listed[listener_type][route.api_key] = versions

    def on(self, listener_type: ListenerType) -> Mapping[ApiKey, tuple[int, int]]:
        return self._listed[listener_type]


def handles(
    api_key: ApiKey,
    request: type,
    *,
    versions: tuple[int, int],
    requires: Requirement,
    listeners: frozenset[ListenerType] = BROKER,
    newest_needs: str | None = None,
    forwarded: bool = False,
    telemetry: bool = False,
) -> Callable[[type[H]], type[H]]:
    """Declare a handler of decoded requests; `forwarded` if brokers forward them to the active controller."""

    def declare(handler: type[H]) -> type[H]:
        return _declare(
            handler,
            Route(
                api_key,
                versions,
                versions,
                request,
                handler,
                requires,
                listeners,
                newest_needs,
                forwarded,
                telemetry,
            ),
        )

    return declare


def handles_frames(
    api_key: ApiKey,
    *,
    versions: tuple[int, int],
    requires: Requirement,
    advertised: tuple[int, int] | None = None,
    listeners: frozenset[ListenerType] = BROKER,
) -> Callable[[type[H]], type[H]]:
    """Declare a handler that reads the frame itself (a hot codec) and responds through the connection."""

    def declare(handler: type[H]) -> type[H]:
        return _declare(
            handler,
            Route(api_key, versions, advertised or versions, None, handler, requires, listeners),
        )

    return declare


_ROUTE = "__route__"


def _declare(handler: type[H], route: Route) -> type[H]:
    if not isinstance(route.requires, Requirement):
        raise TypeError(f"{handler.__name__} does not declare what its clients need (requires=)")
    if route.requires.cluster and route.request is None:
        raise TypeError(f"{handler.__name__} reads frames: it checks the rights of its clients itself")
    if route.requires.rights and "authorization" not in inspect.signature(handler).parameters:
        raise TypeError(
            f"{handler.__name__} declares rights on resources, but not that it uses authorization"
        )
    setattr(handler, _ROUTE, route)
    return handler


def declared_route(value: object) -> Route | None:
    """Return the declaration of a handler class; None for anything else."""
    route = vars(value).get(_ROUTE) if isinstance(value, type) else None
    return route if isinstance(route, Route) else None


class Handlers:
    """The handlers of one node: created with their dependencies, one table for each type of listener."""

    def __init__(
        self, routes: Iterable[Route], dependencies: object, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._tables: dict[ListenerType, dict[int, BoundRoute]] = {each: {} for each in ListenerType}
        for route in routes:
            bound = self._bind(route, dependencies)
            for listener_type in route.listeners:
                table = self._tables[listener_type]
                invariant(route.api_key not in table, f"{route.api_key.name} has two handlers")
                table[route.api_key] = bound

    def on(self, listener_type: ListenerType) -> dict[int, BoundRoute]:
        """Return the APIs that are served on listeners of this type, by their keys."""
        return self._tables[listener_type]

    def _bind(self, route: Route, dependencies: object) -> BoundRoute:
        needed = inspect.signature(route.handler).parameters
        handle = route.handler(**{name: getattr(dependencies, name) for name in needed}).handle
        if inspect.iscoroutinefunction(handle):
            handle = self._promised(handle)
        if route.requires.cluster:
            handle = _authorized(handle, route.requires, getattr(dependencies, "authorization"))  # noqa: B009
        return BoundRoute(route.api_key, route.versions, route.request, handle, route.forwarded)

    def _promised(self, handle: Callable[[Any, Call], Any]) -> Handle:
        """Adapt a coroutine function: each call runs as a task and returns a promise."""

        async def run(request: Any, call: Call, promise: Promise[Any]) -> None:
            try:
                response = await handle(request, call)
            except Exception as error:  # noqa: BLE001 - the router decides what the error closes
                promise.fail(error)
            else:
                promise.keep(response)

        def start(request: Any, call: Call) -> Promise[Any]:
            promise: Promise[Any] = Promise()
            task = self._loop.create_task(run(request, call, promise))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return promise

        return start


def _authorized(handle: Handle, requires: Requirement, authorization: Authorization) -> Handle:
    """Check the operations on the cluster first; without an authorizer nothing is added to the handler."""
    if not authorization.enabled:
        return handle
    text = f"the request needs {' or '.join(each.name for each in requires.cluster)} on the cluster"

    def check(request: Any, call: Call) -> Any:
        for operation in requires.cluster:
            if authorization.allows(call.origin, operation, ResourceType.CLUSTER, CLUSTER):
                return handle(request, call)
        return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text, call.api_version)

    return check
