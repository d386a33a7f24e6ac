"""Declarations of APIs: versions, listeners, dependencies; and the handlers that are created from them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import Dependencies
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.origin import Origin
from ottla.broker.registry import (
    BROKER_AND_CONTROLLER,
    Call,
    Handlers,
    ListedApis,
    Route,
    declared_route,
    handles,
    handles_frames,
)
from ottla.broker.requirements import NOTHING, cluster, resources
from ottla.config.broker import BrokerConfig
from ottla.security.resources import CLUSTER, Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.vote import VoteRequest, VoteResponse

ROUTES = load_all()
BROKER, CONTROLLER = ListenerType.BROKER, ListenerType.CONTROLLER
# As in the message definitions of Apache Kafka 4.3.1.
ON_BOTH = {
    1,
    17,
    18,
    19,
    20,
    29,
    30,
    31,
    32,
    33,
    36,
    37,
    38,
    39,
    40,
    41,
    43,
    44,
    45,
    46,
    49,
    50,
    51,
    55,
    57,
    60,
}
ON_BOTH |= {64, 80, 81}
ON_CONTROLLERS_ONLY = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def _route(key: ApiKey) -> Route:
    (found,) = (route for route in ROUTES if route.api_key == key)
    return found


@pytest.mark.parametrize(("enabled", "newest"), [("true", 6), ("false", 5)])
def test_a_version_that_needs_a_setting_is_listed_if_it_is_on(enabled: str, newest: int) -> None:
    route = _route(ApiKey.INIT_PRODUCER_ID)
    assert route.versions == (0, 6)
    assert route.listed(BrokerConfig({"transaction.two.phase.commit.enable": enabled})) == (0, newest)


def test_all_other_versions_are_listed_as_declared() -> None:
    config = BrokerConfig({})
    others = [route for route in ROUTES if route.newest_needs is None]
    assert [route.listed(config) for route in others] == [route.advertised for route in others]


def test_apis_are_served_on_the_listeners_of_kafka_only() -> None:
    for route in ROUTES:
        if route.api_key in ON_CONTROLLERS_ONLY:
            assert route.listeners == {CONTROLLER}
        elif route.api_key not in ON_BOTH:
            assert route.listeners == {BROKER}


def test_what_is_listed_depends_on_the_listener() -> None:
    listed = ListedApis(ROUTES, BrokerConfig({}))
    assert ApiKey.PRODUCE in listed.on(BROKER)
    assert ApiKey.PRODUCE not in listed.on(CONTROLLER)
    assert ApiKey.API_VERSIONS in listed.on(CONTROLLER)
    assert list(listed.on(BROKER)) == sorted(listed.on(BROKER))


@dataclass(frozen=True)
class _Echo:
    node_id: int

    def handle(self, request: object, call: Call) -> object:
        return self.node_id, request


@dataclass(frozen=True)
class _Slow:
    node_id: int

    async def handle(self, request: object, call: Call) -> object:
        if request is None:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return self.node_id, request


def _declare(handler: type, key: ApiKey = ApiKey.API_VERSIONS, **options: Any) -> Route:
    options.setdefault("requires", NOTHING)
    route = declared_route(handles(key, ApiVersionsRequest, versions=(0, 1), **options)(handler))
    assert route is not None
    return route


def _parts(node_id: int) -> Dependencies:
    return cast(Dependencies, SimpleNamespace(node_id=node_id, cluster_id="not declared"))


def test_two_nodes_have_handlers_of_their_own() -> None:
    route = _declare(_Echo)
    loop = cast(asyncio.AbstractEventLoop, None)
    tables = [Handlers([route], _parts(node_id), loop).on(BROKER) for node_id in (1, 2)]
    call = cast(Call, None)
    assert [table[ApiKey.API_VERSIONS].handle("x", call) for table in tables] == [(1, "x"), (2, "x")]


def test_a_handler_is_bound_on_its_listeners() -> None:
    loop = cast(asyncio.AbstractEventLoop, None)
    both = Handlers([_declare(_Echo, listeners=BROKER_AND_CONTROLLER)], _parts(1), loop)
    assert both.on(BROKER).keys() == both.on(CONTROLLER).keys() == {ApiKey.API_VERSIONS}
    one = Handlers([_declare(_Echo)], _parts(1), loop)
    assert not one.on(CONTROLLER)


def test_an_api_has_one_handler_on_a_listener() -> None:
    route = _declare(_Echo)
    with pytest.raises(InvariantViolation):
        Handlers([route, route], _parts(1), cast(asyncio.AbstractEventLoop, None))


def test_a_coroutine_becomes_a_promise() -> None:
    async def run() -> tuple[object, ApiError]:
        handlers = Handlers([_declare(_Slow)], _parts(3), asyncio.get_running_loop())
        handle = handlers.on(BROKER)[ApiKey.API_VERSIONS].handle
        kept: Promise[object] = handle("x", cast(Call, None))
        failed: Promise[object] = handle(None, cast(Call, None))
        value = await settled(kept)
        with pytest.raises(ApiError) as refused:
            await settled(failed)
        return value, refused.value

    value, error = asyncio.run(run())
    assert value == (3, "x")
    assert error.code is ErrorCode.INVALID_REQUEST


def test_a_handler_without_declared_rights_cannot_register() -> None:
    declare: Any = handles
    with pytest.raises(TypeError, match="requires"):
        declare(ApiKey.HEARTBEAT, ApiVersionsRequest, versions=(0, 1))(_Echo)
    with pytest.raises(TypeError, match="requires"):
        declare(ApiKey.HEARTBEAT, ApiVersionsRequest, versions=(0, 1), requires=None)(_Echo)
    with pytest.raises(TypeError, match="requires"):
        cast(Any, handles_frames)(ApiKey.PRODUCE, versions=(3, 13))(_Echo)


def test_a_handler_of_frames_cannot_leave_its_rights_to_the_router() -> None:
    with pytest.raises(TypeError, match="reads frames"):
        handles_frames(ApiKey.PRODUCE, versions=(3, 13), requires=cluster(Operation.ALTER))(_Echo)


def test_a_handler_that_checks_rights_must_use_the_authorization() -> None:
    requires = resources((Operation.READ, ResourceType.GROUP))
    with pytest.raises(TypeError, match="authorization"):
        handles(ApiKey.HEARTBEAT, ApiVersionsRequest, versions=(0, 1), requires=requires)(_Echo)


class _Allowing(Authorization):
    __slots__ = ("allowed",)

    enabled = True

    def __init__(self, *allowed: Operation) -> None:
        self.allowed = allowed

    def allows(self, origin: Origin, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        assert (resource_type, name) == (ResourceType.CLUSTER, CLUSTER)
        return operation in self.allowed


@pytest.mark.parametrize(
    ("authorization", "allowed"),
    [
        (Authorization(), True),
        (_Allowing(), False),
        (_Allowing(Operation.DESCRIBE), False),
        (_Allowing(Operation.CLUSTER_ACTION), True),
        (_Allowing(Operation.ALTER), True),
    ],
)
def test_one_of_the_operations_on_the_cluster_is_needed(authorization: Authorization, allowed: bool) -> None:
    requires = cluster(Operation.ALTER, Operation.CLUSTER_ACTION)
    route = declared_route(handles(ApiKey.VOTE, VoteRequest, versions=(0, 2), requires=requires)(_Echo))
    assert route is not None
    parts = SimpleNamespace(node_id=1, authorization=authorization)
    handlers = Handlers([route], parts, cast(asyncio.AbstractEventLoop, None))
    call = Call(2, 7, None, Origin(Listener("A", "", 0, "", 0), "127.0.0.1", None))
    request = VoteRequest()
    result = handlers.on(BROKER)[ApiKey.VOTE].handle(request, call)
    if allowed:
        assert result == (1, request)
    else:
        assert result == VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
