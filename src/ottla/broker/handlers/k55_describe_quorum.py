"""DescribeQuorum (key 55), versions 0-2: leader, voters and observers of the metadata log.

Endpoints and directory ids of the voters are included from version 2 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.ids import ZERO_UUID
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

_FIRST_NODES: Final = 2


@handles(
    ApiKey.DESCRIBE_QUORUM,
    DescribeQuorumRequest,
    versions=(0, 2),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.DESCRIBE),
)
@dataclass(frozen=True)
class DescribeQuorum:
    """Passes the request to the controller and removes what old versions cannot carry."""

    controller: ControllerPort

    async def handle(self, request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
        response = await self.controller.describe_quorum(request)
        if call.api_version < _FIRST_NODES:
            response.nodes = []
            for topic in response.topics:
                for partition in topic.partitions:
                    for replica in (*partition.current_voters, *partition.observers):
                        replica.replica_directory_id = ZERO_UUID
        return response
