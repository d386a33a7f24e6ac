"""AlterConfigs (key 33), versions 0-2: replaces all settings of a resource.

Deprecated since KIP-339 in favour of IncrementalAlterConfigs. A broker refuses the settings of other brokers and
forwards the rest to the active controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.forwarding.config_resources import forward_rest, own_replaced
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, versions=(0, 2))
@dataclass(frozen=True)
class AlterConfigs:
    """Passes resources of the whole cluster, and of this broker, to the active controller."""

    node_id: int
    forwarder: Forwarder

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        own = own_replaced(request, self.node_id)
        return await forward_rest(request, own, self.forwarder.alter_configs, AlterConfigsResponse)


@handles(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, versions=(0, 2), listeners=CONTROLLER, forwarded=True)
@dataclass(frozen=True)
class ControllerAlterConfigs:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        return await self.controller.alter_configs(request)
