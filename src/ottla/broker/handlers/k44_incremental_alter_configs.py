"""IncrementalAlterConfigs (key 44), versions 0-1: sets, deletes, appends to or subtracts from a setting.

KIP-339. The controller decides and records; each resource is changed as a whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.registry import handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.registry import Call


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, versions=(0, 1))
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    return await call.broker.controller.incremental_alter_configs(request)
