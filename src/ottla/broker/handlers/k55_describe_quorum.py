"""DescribeQuorum (key 55), versions 0-2: leader, voters and observers of the metadata log.

Where voters listen and which directory they use is told from version 2 on.
"""

from __future__ import annotations

from typing import Final

from ottla.base.ids import ZERO_UUID
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

_FIRST_NODES: Final = 2


@handles(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest, versions=(0, 2))
async def describe_quorum(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    response = await call.broker.controller.describe_quorum(request)
    if call.api_version < _FIRST_NODES:
        response.nodes = []
        for topic in response.topics:
            for partition in topic.partitions:
                for replica in (*partition.current_voters, *partition.observers):
                    replica.replica_directory_id = ZERO_UUID
    return response
