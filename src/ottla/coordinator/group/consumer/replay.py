"""Replay of the records of consumer groups. Only replay changes a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.base.errors import invariant, violated
from ottla.coordinator.group.consumer.consumer_group import NO_TARGET_EPOCH, ConsumerGroup
from ottla.coordinator.group.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.wire.schema import Message


def _partition_metadata(group: ConsumerGroup, _: object, value: object | None) -> None:
    group.has_partition_metadata = value is not None


_REPLAY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMemberMetadataKey: lambda group, key, value: group.replay_subscription(key.member_id, value),
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: lambda group, _, value: group.replay_target_epoch(value),
    ConsumerGroupTargetAssignmentMemberKey: lambda group, key, value: group.replay_target(
        key.member_id, value
    ),
    ConsumerGroupCurrentMemberAssignmentKey: lambda group, key, value: group.replay_current_assignment(
        key.member_id, value
    ),
    ConsumerGroupRegularExpressionKey: lambda group, key, value: group.replay_regex(
        key.regular_expression, value
    ),
    ConsumerGroupMetadataKey: lambda group, _, value: group.replay_epoch(value),
}


def replay_into(group: ConsumerGroup, key: Message, value: Message | None) -> None:
    """Apply a record to a group. The tombstone of the group itself is not handled here."""
    handler = _REPLAY.get(type(key))
    if handler is None:
        violated(f"no replay for {type(key).__name__}")
    handler(group, key, value)


def check_deletable(group: ConsumerGroup) -> None:
    """Check that all other records of a group were deleted before the group."""
    invariant(not group.members, f"{group.group_id} is deleted while it has members")
    invariant(not group.targets, f"{group.group_id} is deleted while it has target assignments")
    invariant(
        group.target_epoch == NO_TARGET_EPOCH, f"{group.group_id} is deleted while it has a target epoch"
    )
