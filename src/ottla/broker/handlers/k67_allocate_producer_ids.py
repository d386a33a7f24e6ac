"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@handles(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    AllocateProducerIdsRequest,
    versions=(0, 0),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class AllocateProducerIds:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AllocateProducerIdsRequest, call: Call) -> AllocateProducerIdsResponse:
        return await self.controller.allocate_producer_ids(request)
