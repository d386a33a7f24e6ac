"""The response to DescribeQuorum.

Partition 0 of the metadata log is the only partition that can be described; any other is unknown. Only the leader of
the quorum describes it, because only the leader has the progress of the others.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.base.ids import METADATA_TOPIC
from ottla.quorum.quorum import QuorumStatus, ReplicaStatus
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


def describe_quorum(
    request: DescribeQuorumRequest, status: QuorumStatus, local_id: int
) -> DescribeQuorumResponse:
    """The response of the node `local_id` to a request."""
    requested = [
        (topic.topic_name, [p.partition_index for p in topic.partitions]) for topic in request.topics
    ]
    if requested != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[_unknown(name, indexes) for name, indexes in requested])
    if status.leader_id != local_id:
        refusal = DescribeQuorumResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return DescribeQuorumResponse(
            topics=[DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[refusal])]
        )
    partition = DescribeQuorumResponsePartitionData(
        leader_id=status.leader_id,
        leader_epoch=status.leader_epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(voter) for voter in status.voters],
        observers=[_replica(observer) for observer in status.observers],
    )
    nodes = [
        Node(
            node_id=voter.node_id,
            listeners=[Listener(name=at.name, host=at.host, port=at.port) for at in voter.listeners],
        )
        for voter in status.voters
    ]
    topic = DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(topics=[topic], nodes=nodes)


def _replica(replica: ReplicaStatus) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _unknown(name: str, indexes: list[int]) -> DescribeQuorumResponseTopicData:
    return DescribeQuorumResponseTopicData(
        topic_name=name,
        partitions=[
            DescribeQuorumResponsePartitionData(
                partition_index=index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="only partition 0 of the metadata log can be described",
            )
            for index in indexes
        ],
    )
