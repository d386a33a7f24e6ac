"""Builders of the log records of consumer groups. Topics and partitions are in ascending order."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.consumer.consumer_member import Assigned, ConsumerMember
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from ottla.coordinator.group.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from ottla.coordinator.runtime.decision import LogRecord


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    key = ConsumerGroupMetadataKey(group_id=group_id)
    return LogRecord(key, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def group_epoch_tombstone(group_id: str) -> LogRecord:
    return LogRecord(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> LogRecord:
    """Deletes the record about subscribed topics that coordinators before Kafka 4.1 wrote."""
    return LogRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def subscription(group_id: str, member: ConsumerMember) -> LogRecord:
    return LogRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=member.classic,
        ),
    )


def subscription_tombstone(group_id: str, member_id: str) -> LogRecord:
    return LogRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target(group_id: str, member_id: str, assignment: Assignment) -> LogRecord:
    listed = [
        TopicPartition(topic_id=topic, partitions=sorted(partitions))
        for topic, partitions in sorted(assignment.items())
    ]
    return LogRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed),
    )


def target_tombstone(group_id: str, member_id: str) -> LogRecord:
    return LogRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> LogRecord:
    return LogRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_epoch_tombstone(group_id: str) -> LogRecord:
    return LogRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def current_assignment(group_id: str, member: ConsumerMember) -> LogRecord:
    """Epochs, state and partitions of a member."""
    return LogRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            assigned_partitions=_listed(member.assigned),
            partitions_pending_revocation=_listed(member.revoking),
        ),
    )


def current_assignment_tombstone(group_id: str, member_id: str) -> LogRecord:
    return LogRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> LogRecord:
    return LogRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, pattern: str) -> LogRecord:
    return LogRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern))


def member_tombstones(group_id: str, member_id: str) -> list[LogRecord]:
    """Delete a member. Replay requires this order: current assignment, target assignment, subscription."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        subscription_tombstone(group_id, member_id),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[LogRecord]:
    """Delete a group with all its records."""
    ids = list(member_ids)
    return [
        *(current_assignment_tombstone(group_id, member_id) for member_id in ids),
        *(target_tombstone(group_id, member_id) for member_id in ids),
        target_epoch_tombstone(group_id),
        *(subscription_tombstone(group_id, member_id) for member_id in ids),
        *(regex_tombstone(group_id, pattern) for pattern in patterns),
        partition_metadata_tombstone(group_id),
        group_epoch_tombstone(group_id),
    ]


def _listed(owned: Assigned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[each] for each in sorted(partitions)],
        )
        for topic, partitions in sorted(owned.items())
    ]
