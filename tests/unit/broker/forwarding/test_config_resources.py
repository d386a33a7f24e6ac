"""Which resources of configuration requests a broker handles itself."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.handlers.k33_alter_configs import AlterConfigs
from ottla.broker.handlers.k44_incremental_alter_configs import IncrementalAlterConfigs
from ottla.broker.net.listeners import Listener
from ottla.broker.registry import Call
from ottla.controller.configs import refuse_alter, refuse_incremental_alter
from ottla.metadata.image import ResourceType
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
CALL = Call(1, 1, None, Listener("PLAINTEXT", "", 0, "", 0), "127.0.0.1:1")
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST


class Controller:
    """Accepts every resource."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[int, str]] = []

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        self.forwarded += [(each.resource_type, each.resource_name) for each in request.resources]
        return refuse_incremental_alter(request, NONE)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        self.forwarded += [(each.resource_type, each.resource_name) for each in request.resources]
        return refuse_alter(request, NONE)


CASES: list[tuple[list[tuple[int, str, ErrorCode]], list[tuple[int, str]]]] = [
    (
        [(TOPIC, "a", NONE), (BROKER, "", NONE), (BROKER, "1", NONE)],
        [(TOPIC, "a"), (BROKER, ""), (BROKER, "1")],
    ),
    ([(BROKER, "2", INVALID)], []),
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
        IncrementalAlterConfigs(1, cast(Forwarder, incremental)).handle(
            IncrementalAlterConfigsRequest(
                resources=[IncrementalResource(resource_type=t, resource_name=n) for t, n, _ in resources]
            ),
            CALL,
        )
    )
    second: Any = asyncio.run(
        AlterConfigs(1, cast(Forwarder, replaced)).handle(
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
        IncrementalAlterConfigs(1, cast(Forwarder, controller)).handle(
            IncrementalAlterConfigsRequest(resources=[resource]), CALL
        )
    )
    assert [each.error_code for each in response.responses] == [code]
    assert controller.forwarded == []
