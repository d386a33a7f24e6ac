"""AlterPartition (key 56), versions 2-3: changes of the ISR by leaders."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


@handles(
    ApiKey.ALTER_PARTITION,
    AlterPartitionRequest,
    versions=(2, 3),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class AlterPartition:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AlterPartitionRequest, call: Call) -> AlterPartitionResponse:
        return await self.controller.alter_partition(request, call.api_version)
