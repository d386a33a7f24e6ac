"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from a setting.

KIP-339. Each resource is changed as a whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    IncrementalAlterConfigsRequest,
    versions=(0, 1),
    listeners=BROKER_AND_CONTROLLER,
)
@dataclass(frozen=True)
class IncrementalAlterConfigs:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        return await self.controller.incremental_alter_configs(request)
