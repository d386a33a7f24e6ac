"""CreatePartitions (key 37), versions 0-3."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


@handles(
    ApiKey.CREATE_PARTITIONS,
    CreatePartitionsRequest,
    versions=(0, 3),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
)
@dataclass(frozen=True)
class CreatePartitions:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
        return await self.controller.create_partitions(request)
