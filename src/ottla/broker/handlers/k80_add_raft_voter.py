"""AddRaftVoter (key 80), versions 0-1: adds a voter of the quorum (KIP-853); see `controller.voters`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


@handles(
    ApiKey.ADD_RAFT_VOTER,
    AddRaftVoterRequest,
    versions=(0, 1),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class AddRaftVoter:
    """Passes the request to the controller."""

    cluster_id: str
    controller: ControllerPort

    async def handle(self, request: AddRaftVoterRequest, call: Call) -> AddRaftVoterResponse:
        return await self.controller.add_raft_voter(request, self.cluster_id)
