"""RemoveRaftVoter (key 81), version 0: removes a voter of the quorum (KIP-853); see `controller.voters`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


@handles(
    ApiKey.REMOVE_RAFT_VOTER,
    RemoveRaftVoterRequest,
    versions=(0, 0),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class RemoveRaftVoter:
    """Passes the request to the controller."""

    cluster_id: str
    controller: ControllerPort

    async def handle(self, request: RemoveRaftVoterRequest, call: Call) -> RemoveRaftVoterResponse:
        return await self.controller.remove_raft_voter(request, self.cluster_id)
