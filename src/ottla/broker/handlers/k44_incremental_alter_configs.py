"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from a setting.

KIP-339. Each resource is changed as a whole or not at all. A broker refuses the settings of other brokers, handles
loggers itself and forwards the rest to the active controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.config_resources import forward_rest, own_incremental
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, versions=(0, 1))
@dataclass(frozen=True)
class IncrementalAlterConfigs:
    """Passes resources of the whole cluster, and of this broker, to the active controller."""

    node_id: int
    forwarder: Forwarder

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        own = own_incremental(request, self.node_id)
        return await forward_rest(
            request, own, self.forwarder.incremental_alter_configs, IncrementalAlterConfigsResponse
        )


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    listeners=CONTROLLER,
    forwarded=True,
)
@dataclass(frozen=True)
class ControllerIncrementalAlterConfigs:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        return await self.controller.incremental_alter_configs(request)
