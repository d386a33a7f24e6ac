"""From a frame to its handler, and from the handler's result to a response.

A router serves the listeners of one type. An API or a version that it does not serve closes the connection, as in
Kafka. Only ApiVersions responds to an unknown version, in its version 0, so that any client can read the response.
A handler returns a response or a promise of one. Until the promise is settled no other request of its connection is
handled; Produce, which responds through the connection itself, is the exception.

Requests of a forwarded API are sent to the active controller, if it is another node (`broker.forwarding`), or if this
node stops being the active controller before the response: a client does not get NOT_CONTROLLER. Their routes read the
frame themselves, so requests that are not forwarded cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.base.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.forwarding.envelope import has_error
from ottla.broker.net.outbox import PendingResponse
from ottla.broker.registry import BoundRoute, Call
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import parse_request_header, response_prefix

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.forwarding.forwarder import Forwarder
    from ottla.broker.net.connection import Connection
    from ottla.broker.quotas import Quotas

_FIRST_METADATA_THROTTLE: Final = 3
_MUTATIONS: Final = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})


class Router:
    """Passes request frames to the handlers of one type of listener."""

    def __init__(
        self,
        routes: dict[int, BoundRoute],
        on_violation: Callable[[InvariantViolation], None],
        log: FilteringBoundLogger,
        forwarder: Forwarder | None = None,
        *,
        quotas: Quotas | None = None,
        audited: bool = False,
    ) -> None:
        self._quotas = quotas
        self._routes = routes
        self._on_violation = on_violation
        self._log = log
        self._audited = audited
        if forwarder is not None:
            self._routes = {
                key: self._forwarded(route, forwarder) if route.forwarded else route
                for key, route in routes.items()
            }

    def _forwarded(self, route: BoundRoute, forwarder: Forwarder) -> BoundRoute:
        """The route of a request that is forwarded unless this node is the active controller, and stays it."""
        request = cast(Any, route.request)

        def forward(connection: Connection, frame: memoryview, body: int, call: Call) -> None:
            pending = PendingResponse()
            complete = partial(self._complete, route, connection, pending, call)
            if not forwarder.is_active():
                connection.reserve(pending, exclusive=True)
                forwarder.forward(frame, body, request, route.api_key, call).when_done(complete)
                return
            data = bytes(frame)
            result = route.handle(codec.decode(request, frame, call.api_version, start=body), call)
            if not isinstance(result, Promise):
                connection.respond(_encode(route.api_key, connection, call, result))
                return

            def done(response: Any, error: BaseException | None) -> None:
                if error is None and has_error(response, ErrorCode.NOT_CONTROLLER):
                    again = forwarder.forward(memoryview(data), body, request, route.api_key, call)
                    again.when_done(complete)
                else:
                    complete(response, error)

            connection.reserve(pending, exclusive=True)
            result.when_done(done)

        return route._replace(request=None, handle=forward)

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        api_key, version, correlation_id, client_id, body = parse_request_header(frame)
        route = self._routes.get(api_key)
        if route is None:
            raise RemoteProtocolError(f"API {api_key} is not served on listener {connection.listener.name}")
        if self._audited:
            connection.origin.api_key = api_key
        call = Call(version, correlation_id, client_id, connection.origin)
        if self._quotas is not None and self._quotas.request is not None:
            call.started = self._quotas.request.now()
        if not route.versions[0] <= version <= route.versions[1]:
            if api_key != ApiKey.API_VERSIONS:
                raise RemoteProtocolError(f"{route.api_key.name} version {version} is not served")
            self._refuse_api_versions(route, connection, call)
        elif route.request is None:
            route.handle(connection, frame, body, call)
            if call.started:
                self._charge_time(connection, call)
        else:
            self._handle(route, connection, frame, body, call)

    def _handle(
        self, route: BoundRoute, connection: Connection, frame: memoryview, body: int, call: Call
    ) -> None:
        request = codec.decode(cast(Any, route.request), frame, call.api_version, start=body)
        result = route.handle(request, call)
        if call.started:
            self._charge_time(connection, call)
        if not isinstance(result, Promise):
            connection.respond(_encode(route.api_key, connection, call, result))
            return
        pending = PendingResponse()
        connection.reserve(pending, exclusive=True)
        result.when_done(partial(self._complete, route, connection, pending, call))

    def _charge_time(self, connection: Connection, call: Call) -> None:
        """Count the time of a handler that has responded or waits."""
        if self._quotas is not None and self._quotas.request is not None:
            self._quotas.request.charge(connection, call)

    def _complete(
        self,
        route: BoundRoute,
        connection: Connection,
        pending: PendingResponse,
        call: Call,
        result: Any,
        error: BaseException | None,
    ) -> None:
        try:
            if error is not None:
                raise error
            connection.complete(pending, _encode(route.api_key, connection, call, result))
        except Exception as failure:  # noqa: BLE001 - must reach neither other connections nor the caller of `keep`
            self._fail(route, connection, failure)

    def _fail(self, route: BoundRoute, connection: Connection, error: Exception) -> None:
        """Close the connection of a request that has no response."""
        connection.close()
        if isinstance(error, RemoteProtocolError):
            self._log.info("connection closed", peer=connection.peer, reason=str(error))
        elif isinstance(error, InvariantViolation):
            self._on_violation(error)
        else:
            self._log.error("request failed", peer=connection.peer, api=route.api_key.name, exc_info=error)

    @staticmethod
    def _refuse_api_versions(route: BoundRoute, connection: Connection, call: Call) -> None:
        call.api_version = -1
        result = route.handle(None, call)
        call.api_version = 0
        connection.respond(_encode(route.api_key, connection, call, result))


def _encode(api_key: ApiKey, connection: Connection, call: Call, result: Any) -> list[bytes]:
    """The frame of a response. If it has a throttle time, no request is read from the connection meanwhile."""
    version = call.api_version
    if isinstance(result, bytes):
        body = result
        # The response of the active controller to a forwarded request, which begins with its throttle time.
        throttle_ms = int.from_bytes(body[:4], "big") if api_key in _MUTATIONS else 0
        if call.throttle_ms and api_key is ApiKey.METADATA and version >= _FIRST_METADATA_THROTTLE:
            body = call.throttle_ms.to_bytes(4, "big") + body[4:]
    else:
        throttle_ms = getattr(result, "throttle_time_ms", 0)
        if call.throttle_ms > throttle_ms and hasattr(result, "throttle_time_ms"):
            result.throttle_time_ms = call.throttle_ms
        body = codec.encode(result, version)
    if throttle_ms > 0:
        connection.throttle(throttle_ms / 1000)
    return [response_prefix(api_key, version, call.correlation_id, len(body)), body]
