"""AlterConfigs (key 33), versions 0-2: replaces all settings of a resource.

Deprecated since KIP-339 in favour of IncrementalAlterConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, versions=(0, 2), listeners=BROKER_AND_CONTROLLER)
@dataclass(frozen=True)
class AlterConfigs:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        return await self.controller.alter_configs(request)
