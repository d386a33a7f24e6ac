from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import ErrorCode
from ottla.controller.quorum_status import describe_quorum
from ottla.quorum.quorum import ListenerAddress, QuorumStatus, ReplicaStatus
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

VOTER = ReplicaStatus(1, uuid.UUID(int=4), 12, 100, 101, (ListenerAddress("CONTROLLER", "h", 9093),))
STATUS = QuorumStatus(leader_id=1, leader_epoch=3, high_watermark=12, voters=(VOTER,))


def request(*asked: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            TopicData(topic_name=name, partitions=[PartitionData(partition_index=index) for index in indexes])
            for name, indexes in asked
        ]
    )


def test_the_metadata_log() -> None:
    response = describe_quorum(request(("__cluster_metadata", [0])), STATUS, STATUS.leader_id)
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 3, 12)
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset, voter.last_caught_up_timestamp) == (1, 12, 101)
    assert partition.observers == []
    (node,) = response.nodes
    assert [(at.name, at.host, at.port) for at in node.listeners] == [("CONTROLLER", "h", 9093)]


@pytest.mark.parametrize(
    "asked",
    [
        [("__cluster_metadata", [1])],
        [("foo", [0])],
        [("__cluster_metadata", [0, 0])],
        [("__cluster_metadata", [0]), ("foo", [0])],
        [("__cluster_metadata", [])],
        [],
    ],
)
def test_anything_else_is_unknown(asked: list[tuple[str, list[int]]]) -> None:
    response = describe_quorum(request(*asked), STATUS, STATUS.leader_id)
    assert [(t.topic_name, [p.partition_index for p in t.partitions]) for t in response.topics] == asked
    assert {p.error_code for t in response.topics for p in t.partitions} <= {3}
    assert response.nodes == []


def test_only_the_leader_describes_the_quorum() -> None:
    response = describe_quorum(request(("__cluster_metadata", [0])), STATUS, STATUS.leader_id + 1)
    (partition,) = response.topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.nodes == []
