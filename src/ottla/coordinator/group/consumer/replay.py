"""Records of consumer groups taken in, one by one: the only way in which a group changes."""

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
    """Change a group as a record tells. The end of the group itself is not told here."""
    handler = _REPLAY.get(type(key))
    if handler is None:
        violated(f"no replay for {type(key).__name__}")
    handler(group, key, value)


def check_erased(group: ConsumerGroup) -> None:
    """A group ends after all that belongs to it."""
    invariant(not group.members, f"{group.group_id} ends while it has members")
    invariant(not group.targets, f"{group.group_id} ends while it has targets")
    invariant(group.target_epoch == NO_TARGET_EPOCH, f"{group.group_id} ends while it has a target epoch")
