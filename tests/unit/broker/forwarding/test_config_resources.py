"""Which resources of configuration requests a broker handles itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.promise import Promise
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.handlers.k33_alter_configs import AlterConfigs
from ottla.broker.handlers.k44_incremental_alter_configs import (
    ControllerIncrementalAlterConfigs,
    IncrementalAlterConfigs,
)
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.port import ControllerPort
from ottla.controller.settings.configs import refuse_alter, refuse_incremental_alter
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.security.resources import CLUSTER, Operation
from ottla.security.resources import ResourceType as AclType
from ottla.wire.messages.alter_configs import (
    AlterableConfig as ReplacedConfig,
)
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
CALL = Call(1, 1, None, Origin(Listener("PLAINTEXT", "", 0, "", 0), "127.0.0.1", 1))
STORE = "listener.name.x.ssl.keystore.location"
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST


class Controller:
    """Accepts every resource: the forwarder, or the active controller in this process."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[int, str]] = []

    def is_active(self) -> bool:
        return False

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, client: Origin | None = None
    ) -> IncrementalAlterConfigsResponse:
        self.forwarded += [(each.resource_type, each.resource_name) for each in request.resources]
        return refuse_incremental_alter(request, NONE)

    async def alter_configs(
        self, request: AlterConfigsRequest, client: Origin | None = None
    ) -> AlterConfigsResponse:
        self.forwarded += [(each.resource_type, each.resource_name) for each in request.resources]
        return refuse_alter(request, NONE)


def check_stores(settings: Mapping[str, str]) -> Promise[None]:
    """Refuse a store that is not `/good`."""
    checked: Promise[None] = Promise()
    location = settings.get(STORE)
    if location in (None, "/good"):
        checked.keep(None)
    else:
        checked.fail(LocalError(f"{location} cannot be used"))
    return checked


def incremental_handler(
    forwarder: object,
    stored: dict[str, str] | None = None,
    authorization: Authorization | None = None,
    controller: object = None,
) -> IncrementalAlterConfigs:
    return IncrementalAlterConfigs(
        authorization or Authorization(),
        1,
        cast(ControllerPort, controller),
        cast(Forwarder, forwarder),
        MetadataCache(MetadataImage(configs={(BROKER, "1"): stored or {}})),
        check_stores,
    )


def replaced_handler(
    forwarder: object, authorization: Authorization | None = None, controller: object = None
) -> AlterConfigs:
    return AlterConfigs(
        authorization or Authorization(),
        1,
        cast(ControllerPort, controller),
        cast(Forwarder, forwarder),
        check_stores,
    )


CASES: list[tuple[list[tuple[int, str, ErrorCode]], list[tuple[int, str]]]] = [
    (
        [(TOPIC, "a", NONE), (BROKER, "", NONE), (BROKER, "1", NONE)],
        [(TOPIC, "a"), (BROKER, ""), (BROKER, "1")],
    ),
    ([(BROKER, "2", INVALID)], []),
    ([(BROKER, "1" * 5000, INVALID)], []),
    ([(BROKER, "2", INVALID), (TOPIC, "a", NONE), (BROKER, "3", INVALID)], [(TOPIC, "a")]),
    ([(BROKER, "x", NONE)], [(BROKER, "x")]),
    ([(BROKER, "2", NONE), (BROKER, "2", NONE)], [(BROKER, "2"), (BROKER, "2")]),
]


@pytest.mark.parametrize(("resources", "forwarded"), CASES)
def test_only_the_settings_of_other_brokers_are_refused(
    resources: list[tuple[int, str, ErrorCode]], forwarded: list[tuple[int, str]]
) -> None:
    expected = [(name, code) for _, name, code in resources]
    incremental, replaced = Controller(), Controller()
    first: Any = asyncio.run(
        incremental_handler(incremental).handle(
            IncrementalAlterConfigsRequest(
                resources=[IncrementalResource(resource_type=t, resource_name=n) for t, n, _ in resources]
            ),
            CALL,
        )
    )
    second: Any = asyncio.run(
        replaced_handler(replaced).handle(
            AlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=t, resource_name=n) for t, n, _ in resources]
            ),
            CALL,
        )
    )
    for response in (first, second):
        assert [(each.resource_name, each.error_code) for each in response.responses] == expected
    assert incremental.forwarded == replaced.forwarded == forwarded


@pytest.mark.parametrize(
    ("name", "entries", "code"),
    [
        ("1", [("root", 0, "INFO")], ErrorCode.INVALID_CONFIG),
        ("1", [("root", 2, "INFO")], INVALID),
        ("1", [("root", 0, None)], INVALID),
        ("2", [("root", 0, "INFO")], INVALID),
        ("1", [], NONE),
    ],
)
def test_loggers_are_not_forwarded(
    name: str, entries: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    controller = Controller()
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in entries]
    resource = IncrementalResource(resource_type=LOGGER, resource_name=name, configs=configs)
    response = asyncio.run(
        incremental_handler(controller).handle(IncrementalAlterConfigsRequest(resources=[resource]), CALL)
    )
    assert [each.error_code for each in response.responses] == [code]
    assert controller.forwarded == []


@pytest.mark.parametrize(
    ("changes", "stored", "accepted"),
    [
        ([(STORE, 0, "/good")], {}, True),
        ([(STORE, 0, "/bad")], {}, False),
        ([(STORE, 1, None)], {STORE: "/bad"}, True),
        ([("listener.name.x.ssl.key.password", 0, "p")], {STORE: "/bad"}, False),
        ([("num.io.threads", 0, "2")], {STORE: "/bad"}, True),
    ],
)
def test_stores_of_this_broker_are_checked_before_settings_are_forwarded(
    changes: list[tuple[str, int, str | None]], stored: dict[str, str], accepted: bool
) -> None:
    controller = Controller()
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = IncrementalResource(resource_type=BROKER, resource_name="1", configs=configs)
    other = IncrementalResource(resource_type=TOPIC, resource_name="t")
    response = asyncio.run(
        incremental_handler(controller, stored).handle(
            IncrementalAlterConfigsRequest(resources=[resource, other]), CALL
        )
    )
    codes = [each.error_code for each in response.responses]
    assert codes == [NONE if accepted else INVALID, NONE]
    assert controller.forwarded == [(BROKER, "1"), (TOPIC, "t")][0 if accepted else 1 :]


@pytest.mark.parametrize(("location", "code"), [("/good", NONE), ("/bad", INVALID)])
def test_stores_are_checked_before_settings_are_replaced(location: str, code: ErrorCode) -> None:
    controller = Controller()
    resource = AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[ReplacedConfig(name=STORE, value=location)]
    )
    response = asyncio.run(
        replaced_handler(controller).handle(AlterConfigsRequest(resources=[resource]), CALL)
    )
    assert [each.error_code for each in response.responses] == [code]


class Denying(Authorization):
    """Allows everything but some resources."""

    enabled = True

    def __init__(self, *denied: tuple[Operation, AclType, str]) -> None:
        self._denied = denied

    def allows(
        self,
        origin: Origin,
        operation: Operation,
        resource_type: AclType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        return (operation, resource_type, name) not in self._denied


class ActiveForwarder:
    def is_active(self) -> bool:
        return True


DENYING = Denying(
    (Operation.ALTER_CONFIGS, AclType.TOPIC, "b"),
    (Operation.ALTER_CONFIGS, AclType.GROUP, "g"),
    (Operation.ALTER_CONFIGS, AclType.CLUSTER, CLUSTER),
)
DENIED = [
    (TOPIC, "a", NONE),
    (TOPIC, "b", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (BROKER, "", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    (BROKER, "2", INVALID),
    (ResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (ResourceType.GROUP, "h", NONE),
    (ResourceType.CLIENT_METRICS, "m", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize("active", [True, False])
def test_the_controller_refuses_resources_that_the_client_may_not_alter(active: bool) -> None:
    """Another broker forwards them with the principal of the client."""
    controller, remote = Controller(), Controller()
    forwarder = ActiveForwarder() if active else remote
    expected = [(kind, name, code if active or code is INVALID else NONE) for kind, name, code in DENIED]
    first: Any = asyncio.run(
        incremental_handler(forwarder, None, DENYING, controller).handle(
            IncrementalAlterConfigsRequest(
                resources=[IncrementalResource(resource_type=t, resource_name=n) for t, n, _ in DENIED]
            ),
            CALL,
        )
    )
    second: Any = asyncio.run(
        replaced_handler(forwarder, DENYING, controller).handle(
            AlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=t, resource_name=n) for t, n, _ in DENIED]
            ),
            CALL,
        )
    )
    for response in (first, second):
        found = [(each.resource_type, each.resource_name, each.error_code) for each in response.responses]
        assert found == expected
    if active:
        assert controller.forwarded == [(TOPIC, "a"), (ResourceType.GROUP, "h")] * 2


def test_invalid_entries_are_refused_for_that() -> None:
    """Also those of a resource that the client may not alter; the controller finds them."""
    twice = [IncrementalResource(resource_type=TOPIC, resource_name="b") for _ in range(2)]
    nulls = [AlterableConfig(name="x", config_operation=0, value=None)]
    null = IncrementalResource(resource_type=ResourceType.GROUP, resource_name="g", configs=nulls)
    controller = Controller()
    handler = ControllerIncrementalAlterConfigs(DENYING, cast(ControllerPort, controller))
    asyncio.run(handler.handle(IncrementalAlterConfigsRequest(resources=[*twice, null]), CALL))
    assert controller.forwarded == [(TOPIC, "b"), (TOPIC, "b"), (ResourceType.GROUP, "g")]


@pytest.mark.parametrize(
    ("name", "setting", "value", "code"),
    [
        ("x", "log.cleaner.threads", "1", INVALID),
        ("1", "log.dirs", "/elsewhere", INVALID),
        ("1", "log.cleaner.threads", "many", INVALID),
        ("1", "log.cleaner.threads", "0", INVALID),
        ("", "listeners", "PLAINTEXT://:1", INVALID),
        ("1", "log.cleaner.threads", "2", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("1", "cordoned.log.dirs", "/guessed", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("1", "plugin.setting", "x", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_settings_of_brokers_are_checked_by_definition_before_the_rights(
    name: str, setting: str, value: str, code: ErrorCode
) -> None:
    """A setting whose check depends on other settings of the broker is not: they would be revealed."""
    controller = Controller()
    change = AlterableConfig(name=setting, config_operation=0, value=value)
    altered = IncrementalResource(resource_type=BROKER, resource_name=name, configs=[change])
    handler = incremental_handler(ActiveForwarder(), None, DENYING, controller)
    (first,) = asyncio.run(
        handler.handle(IncrementalAlterConfigsRequest(resources=[altered]), CALL)
    ).responses
    replaced = AlterConfigsResource(
        resource_type=BROKER, resource_name=name, configs=[ReplacedConfig(name=setting, value=value)]
    )
    whole = replaced_handler(ActiveForwarder(), DENYING, controller)
    (second,) = asyncio.run(whole.handle(AlterConfigsRequest(resources=[replaced]), CALL)).responses
    assert first.error_code == second.error_code == code
    assert controller.forwarded == []


def test_levels_of_loggers_need_a_right_on_the_cluster() -> None:
    resource = IncrementalResource(resource_type=LOGGER, resource_name="1")
    request = IncrementalAlterConfigsRequest(resources=[resource])
    broker = incremental_handler(Controller(), None, DENYING)
    (refused,) = asyncio.run(broker.handle(request, CALL)).responses
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for denying, code in (
        (DENYING, NONE),
        (
            Denying((Operation.CLUSTER_ACTION, AclType.CLUSTER, CLUSTER)),
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ):
        controller = ControllerIncrementalAlterConfigs(denying, cast(ControllerPort, Controller()))
        (response,) = asyncio.run(controller.handle(request, CALL)).responses
        assert response.error_code == code


def test_no_store_is_read_for_a_client_that_may_not_alter_settings() -> None:
    """It could otherwise find out which files exist."""
    configs = [AlterableConfig(name=STORE, config_operation=0, value="/bad")]
    resource = IncrementalResource(resource_type=BROKER, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    handler = incremental_handler(ActiveForwarder(), None, DENYING, Controller())
    (refused,) = asyncio.run(handler.handle(request, CALL)).responses
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    replaced = AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[ReplacedConfig(name=STORE, value="/bad")]
    )
    old = replaced_handler(ActiveForwarder(), DENYING, Controller())
    (other,) = asyncio.run(old.handle(AlterConfigsRequest(resources=[replaced]), CALL)).responses
    assert other.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
