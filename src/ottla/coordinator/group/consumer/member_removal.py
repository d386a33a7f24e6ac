"""Removes members of consumer groups: members that leave, and members whose timers expire.

A removed member is deleted from the log and the group gets a new epoch. The other members get its partitions with
their next heartbeats. If only members of the classic protocol remain, the group may become a classic group (see
`migration.conversion`). A static member may leave temporarily: it keeps its partitions until its session expires.

The timers of a removed member are cancelled when its removal is committed. If the log refuses the removal, the member
stays in the group, and a client that has left does not try again: then its session timer removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import LEAVING_TEMPORARILY, ConsumerMember
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.coordinator.group.consumer.validation import known_static_member
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.migration.conversion import can_downgrade_without, downgraded
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

R = TypeVar("R")


class MemberRemoval:
    """Decides the removal of members."""

    __slots__ = ("_context", "_hashes", "sessions")

    def __init__(self, context: GroupContext, hashes: MetadataHashes) -> None:
        self._context = context
        self._hashes = hashes
        self.sessions = Sessions(context, self.expire)

    def leave(self, request: ConsumerGroupHeartbeatRequest) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Handle the heartbeat of a member that leaves, permanently or temporarily."""
        group = self._group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            return self.remove(group, [group.member(request.member_id)], response)
        member = known_static_member(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVING_TEMPORARILY:
            return Decision(
                response, [consumer_records.current_assignment(group.group_id, member.left_temporarily())]
            )
        return self.remove(group, [member], response)

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def expire(self, group: ConsumerGroup, member: ConsumerMember) -> Decision[None]:
        """Remove a member whose timer has expired."""
        return self.remove(group, [member], None)

    def remove(self, group: ConsumerGroup, members: list[ConsumerMember], response: R) -> Decision[R]:
        """Remove members from the group."""
        if not members:
            return Decision(response)
        if can_downgrade_without(self._context, group, members):
            records = downgraded(self._context, group, members)
            return Decision(response, records, self.forget_removed(group, list(group.members)))
        removed = [member.member_id for member in members]
        return Decision(response, self._delete(group, members), self.forget_removed(group, removed))

    def forget_removed(self, group: ConsumerGroup, member_ids: list[str]) -> Callable[[ErrorCode], None]:
        """The `on_complete` callback of a decision that removes members: cancels their timers.

        Members keep them if the log has refused the decision, or if they have joined again since then.
        """

        def on_complete(_: ErrorCode) -> None:
            now = self._context.groups.get(group.group_id)
            staying = now.members if isinstance(now, ConsumerGroup) else {}
            for member_id in member_ids:
                if member_id not in staying:
                    self.sessions.forget(group.group_id, member_id)

        return on_complete

    def _delete(self, group: ConsumerGroup, members: list[ConsumerMember]) -> list[LogRecord]:
        group_id, subscriptions = group.group_id, group.subscriptions
        records = [
            record
            for member in members
            for record in consumer_records.member_tombstones(group_id, member.member_id)
        ]
        changes = [(member, None) for member in members]
        left = subscriptions.regexes_after(changes)
        unused = dict.fromkeys(member.topic_regex for member in members if member.topic_regex)
        records.extend(
            consumer_records.regex_tombstone(group_id, pattern) for pattern in unused if pattern not in left
        )
        metadata_hash = self._hashes.of(subscriptions.topics_after(changes), self._context.image)
        records.append(consumer_records.group_epoch(group_id, group.epoch + 1, metadata_hash))
        return records
