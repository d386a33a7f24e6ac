"""AssignReplicasToDirs (key 73), version 0: log directories of replicas."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


@handles(
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    AssignReplicasToDirsRequest,
    versions=(0, 0),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class AssignReplicasToDirs:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: AssignReplicasToDirsRequest, call: Call) -> AssignReplicasToDirsResponse:
        return await self.controller.assign_replicas_to_dirs(request)
