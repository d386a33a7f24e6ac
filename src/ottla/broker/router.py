"""From a frame to its handler, and from the handler's result to an answer.

An API or version this broker does not serve closes the connection, as Kafka does; only ApiVersions answers an
unknown version (in its version 0, so that any client can read it). A handler may answer at once, await, or
return a promise, which spares requests that come often a task; in any case its request is the only one of its
connection until it is answered, Produce excepted.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ottla.base.errors import InvariantViolation, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.net.outbox import Answer
from ottla.broker.registry import ROUTES, Call, RawHandler, Route
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import parse_request_header, response_prefix

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.broker.net.connection import Connection
    from ottla.broker.services import Broker


class Router:
    """Answers frames with the handlers of `ROUTES`."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, log: FilteringBoundLogger) -> None:
        self._broker = broker
        self._loop = loop
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        api_key, version, correlation_id, client_id, body = parse_request_header(frame)
        route = ROUTES.get(api_key)
        if route is None:
            raise RemoteProtocolError(f"API {api_key} is not served")
        call = Call(version, correlation_id, client_id, connection, self._broker)
        if not route.versions[0] <= version <= route.versions[1]:
            if api_key != ApiKey.API_VERSIONS:
                raise RemoteProtocolError(f"{route.api_key.name} version {version} is not served")
            self._answer_unknown_api_versions(route, call)
        elif route.request is None:
            cast(RawHandler, route.handler)(frame, body, call)
        else:
            self._answer(route, frame, body, call)

    def _answer(self, route: Route, frame: memoryview, body: int, call: Call) -> None:
        version = call.api_version
        request = codec.decode(cast(Any, route.request), frame, version, start=body)
        result: Any = route.handler(request, call)  # type: ignore[call-arg, arg-type]
        connection = call.connection
        if isinstance(result, Promise):
            answer = Answer()
            connection.expect(answer, exclusive=True)
            result.when_done(partial(self._finish_promised, route, answer, call))
        elif not inspect.iscoroutine(result):
            connection.reply(_encode(route.api_key, call, result))
        else:
            answer = Answer()
            connection.expect(answer, exclusive=True)
            task = self._loop.create_task(self._finish(route, result, answer, call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, route: Route, work: Coroutine[Any, Any, Any], answer: Answer, call: Call) -> None:
        try:
            result = await work
            call.connection.finish(answer, _encode(route.api_key, call, result))
        except Exception as error:  # noqa: BLE001 - one bad request must not reach other connections
            self._give_up(route, call, error)

    def _finish_promised(
        self, route: Route, answer: Answer, call: Call, result: Any, error: BaseException | None
    ) -> None:
        try:
            if error is not None:
                raise error
            call.connection.finish(answer, _encode(route.api_key, call, result))
        except Exception as failure:  # noqa: BLE001 - nor whoever kept the promise
            self._give_up(route, call, failure)

    def _give_up(self, route: Route, call: Call, error: Exception) -> None:
        """A request that cannot be answered ends its connection."""
        call.connection.close()
        if isinstance(error, RemoteProtocolError):
            self._log.info("connection closed", peer=call.connection.peer, reason=str(error))
        elif isinstance(error, InvariantViolation):
            self._loop.call_exception_handler({"message": "request failed", "exception": error})
        else:
            peer, api = call.connection.peer, route.api_key.name
            self._log.error("request failed", peer=peer, api=api, exc_info=error)

    def _answer_unknown_api_versions(self, route: Route, call: Call) -> None:
        call.api_version = -1
        result: Any = route.handler(None, call)  # type: ignore[call-arg, arg-type]
        call.api_version = 0
        call.connection.reply(_encode(route.api_key, call, result))


def _encode(api_key: ApiKey, call: Call, result: Any) -> list[bytes]:
    version = call.api_version
    body = result if isinstance(result, bytes) else codec.encode(result, version)
    return [response_prefix(api_key, version, call.correlation_id, len(body)), body]
