"""AlterPartitionReassignments (key 45), versions 0-1: moves partitions to other brokers."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


@handles(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    versions=(0, 1),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class AlterPartitionReassignments:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: AlterPartitionReassignmentsRequest, call: Call
    ) -> AlterPartitionReassignmentsResponse:
        return await self.controller.alter_partition_reassignments(request)
