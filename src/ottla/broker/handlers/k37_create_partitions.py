"""CreatePartitions (key 37), versions 0-3. Decided by the controller."""

from __future__ import annotations

from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


@handles(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, versions=(0, 3))
async def create_partitions(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    return await call.broker.controller.create_partitions(request)
