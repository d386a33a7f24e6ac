"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from a setting.

KIP-339. Each resource is changed as a whole or not at all. A broker refuses the settings of other brokers, handles
loggers itself and forwards the rest to the active controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.config_resources import merged, own_incremental, without
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
        if not own:
            return await self.forwarder.incremental_alter_configs(request)
        rest = IncrementalAlterConfigsRequest(
            resources=without(request.resources, own), validate_only=request.validate_only
        )
        response = IncrementalAlterConfigsResponse()
        if rest.resources:
            response = await self.forwarder.incremental_alter_configs(rest)
        response.responses = merged(len(request.resources), own, response.responses)
        return response


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
