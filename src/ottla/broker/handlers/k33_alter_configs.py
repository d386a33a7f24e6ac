"""AlterConfigs (key 33), versions 0-2: replaces everything that is set for a resource.

Deprecated since KIP-339 in favour of IncrementalAlterConfigs; the controller decides and records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.registry import handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from ottla.broker.registry import Call


@handles(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, versions=(0, 2))
async def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    return await call.broker.controller.alter_configs(request)
