"""OffsetForLeaderEpoch (key 23), versions 2-4: the end offset of a leader epoch, to detect divergence (KIP-320).

An epoch that is unknown, or newer than the leader's, has end offset -1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import allows_cluster, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    versions=(2, 4),
    requires=resources(
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
@dataclass(frozen=True)
class OffsetForLeaderEpoch:
    """Looks leader epochs up in the logs of this broker."""

    authorization: Authorization
    replicas: Replicas

    def handle(self, request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
        visible = None
        if not allows_cluster(self.authorization, call, Operation.CLUSTER_ACTION, quiet=True):
            visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
        found, denied = [], []
        for topic in request.topics:
            if visible is None or visible(topic.topic):
                ends = [self._end(topic.topic, one) for one in topic.partitions]
                found.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                ends = [EpochEndOffset(error_code=code, partition=one.partition) for one in topic.partitions]
                denied.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(topics=found + denied)

    def _end(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = self.replicas.get(topic, wanted.partition)
            partition.check_leader(wanted.current_leader_epoch)
        except ApiError as error:
            return EpochEndOffset(error_code=error.code, partition=wanted.partition)
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
