"""Decisions about AlterPartition: the ISR that the leader of a partition proposes.

Checks are made in Kafka 4.3's order. The broker epochs of the proposed members (version 3) are compared with the
registered ones: a follower that restarted since it caught up must not join the ISR by a request that was sent before.
A change that completes a reassignment may move the leader; its response is NEW_LEADER_ELECTED.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.controller.partitions.partition_change import RECOVERED, RECOVERING
from ottla.metadata.delta import changed_partition
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.metadata.records import PartitionChangeRecord
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
    PartitionData,
)
from ottla.wire.schema import Message

_EPOCHS_SINCE_VERSION = 3
_UNKNOWN_EPOCH = -1
_UNCHANGED_LEADER = PartitionChangeRecord().leader


def decide_alter_partition(
    view: ClusterView, request: AlterPartitionRequest, api_version: int
) -> Decision[AlterPartitionResponse]:
    """Change the ISR of each partition whose change is valid."""
    view.check_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    topics: list[AlterPartitionResponseTopicData] = []
    for topic_data in request.topics:
        topic = view.image.topics.by_id.get(topic_data.topic_id)
        topics.append(
            AlterPartitionResponseTopicData(
                topic_id=topic_data.topic_id,
                partitions=[
                    _alter(view, request.broker_id, topic, each, _proposed(each, api_version), records)
                    for each in topic_data.partitions
                ],
            )
        )
    return SplittableDecision(records, AlterPartitionResponse(topics=topics))


def _proposed(data: PartitionData, api_version: int) -> list[BrokerState]:
    if api_version >= _EPOCHS_SINCE_VERSION:
        return data.new_isr_with_epochs
    return [BrokerState(broker_id=each, broker_epoch=_UNKNOWN_EPOCH) for each in data.new_isr]


def _alter(
    view: ClusterView,
    broker_id: int,
    topic: TopicImage | None,
    data: PartitionData,
    proposed: list[BrokerState],
    records: list[Message],
) -> AlterPartitionResponsePartitionData:
    index = data.partition_index
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=unknown)
    error = _check(view, broker_id, partition, data, proposed)
    if error is not ErrorCode.NONE:
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=error)
    change = view.change(topic, partition)
    change.isr = tuple(each.broker_id for each in proposed)
    change.recovery_state = data.leader_recovery_state
    record = view.build((topic.topic_id, index), change)
    if record is not None:
        records.append(record)
        partition = changed_partition(partition, record)
        if record.leader not in (broker_id, _UNCHANGED_LEADER):
            code = ErrorCode.NEW_LEADER_ELECTED
            return AlterPartitionResponsePartitionData(partition_index=index, error_code=code)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _check(
    view: ClusterView,
    broker_id: int,
    partition: PartitionImage,
    data: PartitionData,
    proposed: list[BrokerState],
) -> ErrorCode:
    """The error of a proposed change; NONE if it is valid."""
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader has newer metadata than this controller
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    members = [each.broker_id for each in proposed]
    is_valid = len(set(members)) == len(members) and set(members) <= set(partition.replicas)
    if not is_valid or partition.leader not in members:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in (RECOVERED, RECOVERING):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state == RECOVERING and (
        len(members) > 1 or partition.leader_recovery_state == RECOVERED
    ):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(view, partition, each) for each in proposed):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_eligible(view: ClusterView, partition: PartitionImage, member: BrokerState) -> bool:
    """Whether a replica may be in the ISR.

    Its broker must be registered under this epoch, unfenced and not shutting down. A replica that joins must be in a
    directory that works: one that was lost is copied anew, and joins under its new directory.
    """
    broker = view.image.brokers.get(member.broker_id)
    if broker is None or not broker.active:
        return False
    joins = member.broker_id not in partition.isr
    if joins and not partition.is_online(member.broker_id, broker.log_dirs):
        return False
    return member.broker_epoch in (_UNKNOWN_EPOCH, broker.epoch)
