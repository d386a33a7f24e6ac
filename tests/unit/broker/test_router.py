"""Frames to handlers and results to responses, for each type of listener."""

from __future__ import annotations

from typing import Any, cast

import pytest
import structlog

from ottla.base.errors import ErrorCode, InvariantViolation, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers import load_all
from ottla.broker.handlers.k18_api_versions import ApiVersions
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.origin import Origin
from ottla.broker.registry import BoundRoute, Call, ListedApis
from ottla.broker.router import Router
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import EMPTY_IMAGE
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.schema import Message

BROKER, CONTROLLER = ListenerType.BROKER, ListenerType.CONTROLLER


class Connection:
    """Records responses."""

    def __init__(self, listener_type: ListenerType) -> None:
        self.listener = Listener(listener_type.name, "", 0, "", 0, listener_type)
        self.origin = Origin(self.listener, "127.0.0.1", 5)
        self.peer = self.origin.peer
        self.sent: list[bytes] = []
        self.reserved: list[Any] = []
        self.closed = False

    def respond(self, buffers: list[bytes]) -> None:
        self.sent.append(b"".join(buffers))

    def reserve(self, pending: Any, *, exclusive: bool) -> None:
        assert exclusive
        self.reserved.append(pending)

    def complete(self, pending: Any, buffers: list[bytes]) -> None:
        assert pending is self.reserved.pop()
        self.respond(buffers)

    def close(self) -> None:
        self.closed = True


class Setup:
    """A router with ApiVersions and, on brokers, one API whose responses the test decides."""

    def __init__(self, listener_type: ListenerType = BROKER, *, forwarder: Any = None) -> None:
        self.connection = Connection(listener_type)
        self.violations: list[InvariantViolation] = []
        self.result: Any = HeartbeatResponse()
        listed = ListedApis(load_all(), BrokerConfig({}))
        api_versions = ApiVersions(listed, MetadataCache(EMPTY_IMAGE), dict)
        routes = {18: BoundRoute(ApiKey.API_VERSIONS, (0, 4), ApiVersionsRequest, api_versions.handle)}
        if listener_type is BROKER:
            routes[12] = BoundRoute(
                ApiKey.HEARTBEAT, (0, 4), HeartbeatRequest, lambda *_: self.result, forwarder is not None
            )
        self._router = Router(routes, self.violations.append, structlog.get_logger(), forwarder)

    def send(self, request: Message, version: int) -> None:
        frame = memoryview(bytearray(request_frame(request, version, 7, "client")[4:]))
        self._router(cast(Any, self.connection), frame)

    def api_versions(self) -> ApiVersionsResponse:
        response = self.connection.sent.pop()[4:]
        _, start = parse_response_header(response, 18, 0)
        return codec.decode(ApiVersionsResponse, response, 0, start=start)


@pytest.mark.parametrize(("listener_type", "produces"), [(BROKER, True), (CONTROLLER, False)])
def test_api_versions_lists_the_apis_of_the_listener(listener_type: ListenerType, produces: bool) -> None:
    setup = Setup(listener_type)
    setup.send(ApiVersionsRequest(), 0)
    keys = {each.api_key for each in setup.api_versions().api_keys}
    assert (0 in keys) is produces
    assert 18 in keys


def test_an_api_of_another_listener_is_not_served() -> None:
    with pytest.raises(RemoteProtocolError, match="12 is not served on listener CONTROLLER"):
        Setup(CONTROLLER).send(HeartbeatRequest(), 4)


def test_an_unknown_version_is_not_served() -> None:
    setup = Setup()
    frame = memoryview(bytearray(b"\0\x0c\0\x63\0\0\0\x07\xff\xff\0"))
    with pytest.raises(RemoteProtocolError, match="HEARTBEAT version 99"):
        setup._router(cast(Any, setup.connection), frame)


def test_an_unknown_version_of_api_versions_has_a_response_in_version_0() -> None:
    setup = Setup()
    frame = memoryview(bytearray(b"\0\x12\0\x63\0\0\0\x07\xff\xff\0"))
    setup._router(cast(Any, setup.connection), frame)
    response = setup.api_versions()
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [each.api_key for each in response.api_keys] == [18]


def test_a_promise_completes_its_slot() -> None:
    setup = Setup()
    setup.result = Promise()
    setup.send(HeartbeatRequest(), 4)
    assert (len(setup.connection.reserved), setup.connection.sent) == (1, [])
    setup.result.keep(HeartbeatResponse())
    assert (setup.connection.reserved, len(setup.connection.sent)) == ([], 1)


@pytest.mark.parametrize("error", [RemoteProtocolError("x"), InvariantViolation("x"), ValueError("x")])
def test_a_failed_promise_closes_the_connection(error: Exception) -> None:
    setup = Setup()
    setup.result = Promise()
    setup.send(HeartbeatRequest(), 4)
    setup.result.fail(error)
    assert setup.connection.closed
    assert setup.violations == ([error] if isinstance(error, InvariantViolation) else [])


class Forwarder:
    """Records forwarded frames."""

    def __init__(self, *, active: bool) -> None:
        self.active = active
        self.frames: list[bytes] = []
        self.result: Promise[Any] = Promise()

    def is_active(self) -> bool:
        return self.active

    def forward(self, frame: memoryview, *_: object) -> Promise[Any]:
        self.frames.append(bytes(frame))
        return self.result


def heartbeat_error(setup: Setup) -> int:
    response = setup.connection.sent.pop()[4:]
    _, start = parse_response_header(response, 12, 4)
    return codec.decode(HeartbeatResponse, response, 4, start=start).error_code


def test_a_request_is_forwarded_unless_this_node_is_the_active_controller() -> None:
    forwarder = Forwarder(active=False)
    setup = Setup(forwarder=forwarder)
    setup.send(HeartbeatRequest(), 4)
    forwarder.result.keep(HeartbeatResponse(error_code=3))
    assert heartbeat_error(setup) == 3
    forwarder.active = True
    setup.result = Promise.kept(HeartbeatResponse(error_code=4))
    setup.send(HeartbeatRequest(), 4)
    assert heartbeat_error(setup) == 4
    assert len(forwarder.frames) == 1


def test_a_request_is_forwarded_if_this_controller_loses_its_leadership_before_the_response() -> None:
    forwarder = Forwarder(active=True)
    setup = Setup(forwarder=forwarder)
    setup.result = Promise()
    frame = request_frame(HeartbeatRequest(), 4, 7, "client")[4:]
    received = bytearray(frame)
    setup._router(cast(Any, setup.connection), memoryview(received))
    received[:] = bytes(len(received))  # the buffer is used for the next frame
    setup.result.keep(HeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert forwarder.frames == [frame]
    assert setup.connection.sent == []
    forwarder.result.keep(HeartbeatResponse(error_code=0))
    assert heartbeat_error(setup) == 0


def test_a_call_describes_the_request() -> None:
    calls: list[Call] = []
    setup = Setup()
    routes = {12: BoundRoute(ApiKey.HEARTBEAT, (0, 4), None, lambda *given: calls.append(given[3]))}
    router = Router(routes, setup.violations.append, structlog.get_logger())
    frame = memoryview(bytearray(request_frame(HeartbeatRequest(), 3, 9, "me")[4:]))
    router(cast(Any, setup.connection), frame)
    (call,) = calls
    assert (call.api_version, call.correlation_id, call.client_id) == (3, 9, "me")
    assert call.origin is setup.connection.origin
