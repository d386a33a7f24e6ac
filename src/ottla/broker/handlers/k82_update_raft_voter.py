"""UpdateRaftVoter (key 82), version 0: updates the addresses of a voter (KIP-853); see `controller.voters`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


@handles(
    ApiKey.UPDATE_RAFT_VOTER,
    UpdateRaftVoterRequest,
    versions=(0, 0),
    listeners=CONTROLLER,
    requires=cluster(Operation.CLUSTER_ACTION),
)
@dataclass(frozen=True)
class UpdateRaftVoter:
    """Passes the request to the controller."""

    cluster_id: str
    controller: ControllerPort

    async def handle(self, request: UpdateRaftVoterRequest, call: Call) -> UpdateRaftVoterResponse:
        return await self.controller.update_raft_voter(request, self.cluster_id, call.origin.listener.name)
