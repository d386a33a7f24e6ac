"""A heartbeat of a member: the one request by which it joins, stays, changes its mind and is told what to do.

Decided in three steps, each of which may write records:
1. the member is made or brought up to date. Another subscription, or topics that changed, give the group a new epoch;
2. if the group's epoch is ahead of its target, a new target is computed;
3. the member goes one step towards its target.

The answer lists partitions only if they changed or if the member told everything about itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import Uuid, uuid_text
from ottla.base.rng import random_uuid
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import JOINING, ConsumerMember
from ottla.coordinator.group.consumer.reconciliation import Owned, ReconciliationInput, reconciled
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.coordinator.group.consumer.subscription.regex_refresh import RegexChange, RegexRefresh
from ottla.coordinator.group.consumer.target_assignment import Target, next_target
from ottla.coordinator.group.consumer.validation import (
    check_epoch,
    check_released,
    check_room,
    is_full,
    known_static_member,
)
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.migration.conversion import upgraded
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
    TopicPartitions,
)


def owned_by(listed: Sequence[TopicPartitions] | None) -> Owned | None:
    """What a member says it owns."""
    if listed is None:
        return None
    owned: dict[Uuid, frozenset[int]] = {}
    for each in listed:
        owned[each.topic_id] = owned.get(each.topic_id, frozenset()) | frozenset(each.partitions)
    return owned


class ConsumerHeartbeat:
    """Decides heartbeats of members that are in a group or come into it."""

    __slots__ = ("_context", "_hashes", "_regexes", "_sessions")

    def __init__(
        self, context: GroupContext, hashes: MetadataHashes, regexes: RegexRefresh, sessions: Sessions
    ) -> None:
        self._context = context
        self._hashes = hashes
        self._regexes = regexes
        self._sessions = sessions

    def decide(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        records: list[LogRecord] = []
        group = self._group(request, records)
        check_room(group, request.member_id, self._context.settings.consumer_max_size)
        member_id = request.member_id or uuid_text(random_uuid(self._context.rng))
        owned = owned_by(request.topic_partitions)
        before = self._member(group, request, member_id, owned, records)
        after = _updated(before, request, client)
        names_changed = append_subscription(group, before, after, records)
        regex = self._regexes.update(group, before, after, records)
        epoch = group.epoch
        # A pattern that is still to be resolved brings a new epoch when it is, not twice.
        bump = names_changed or regex is RegexChange.RESOLVED
        if bump or group.metadata_stale:
            epoch = self.refresh(group, before, after, records, bump=bump)
        target = next_target(self._context, group, epoch, before, after, records)
        changed = names_changed or regex is not RegexChange.NONE
        after = self.step(group, after, target, owned, records, subscription_changed=changed)
        self._sessions.expect_heartbeat(group.group_id, member_id)
        tells_all = is_full(request) or before.assigned != after.assigned
        return Decision(self._answer(group, after, tells_all=tells_all), records)

    def _answer(
        self, group: ConsumerGroup, member: ConsumerMember, *, tells_all: bool
    ) -> ConsumerGroupHeartbeatResponse:
        settings = self._context.consumer_settings(group.group_id)
        listed = [
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=sorted(held))
            for topic, held in sorted(member.assigned.items())
        ]
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=Assignment(topic_partitions=listed) if tells_all else None,
        )

    def _group(self, request: ConsumerGroupHeartbeatRequest, records: list[LogRecord]) -> ConsumerGroup:
        """The group; who joins makes it if there is none, and takes over a classic one."""
        group_id, joins = request.group_id, request.member_epoch == JOINING
        group = self._context.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and not joins:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if group is None:
            return ConsumerGroup(group_id)
        if joins and isinstance(group, ClassicGroup):
            if not group.is_empty():
                return upgraded(self._context, group, self._hashes, self._sessions, records)
            records.extend(group.tombstones())
            return ConsumerGroup(group_id)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Owned | None,
        records: list[LogRecord],
    ) -> ConsumerMember:
        """The member as the group knows it, before it is brought up to date."""
        joins = request.member_epoch == JOINING
        if request.instance_id is None:
            member = group.members.get(member_id) if joins else group.member(member_id)
            member = member or ConsumerMember(member_id)
        elif joins:
            return self.join_static_member(group, member_id, request.instance_id, records, classic=False)
        else:
            member = known_static_member(group, member_id, request.instance_id)
        check_epoch(member, request.member_epoch, owned)
        return member

    @staticmethod
    def join_static_member(
        group: ConsumerGroup, member_id: str, instance_id: str, records: list[LogRecord], *, classic: bool
    ) -> ConsumerMember:
        """A static member comes, or comes back under another id and takes over what it had.

        A live member is not replaced, unless one of both speaks the classic protocol, which has no way to say
        that a member will be back.
        """
        existing = group.static_member(instance_id)
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not classic and not existing.uses_classic_protocol:
            check_released(existing, member_id)
        successor = existing.replaced_by(member_id)
        records.extend(consumer_records.member_tombstones(group.group_id, existing.member_id))
        records.append(consumer_records.subscription(group.group_id, successor))
        records.append(
            consumer_records.target(group.group_id, member_id, group.targets.get(existing.member_id, {}))
        )
        records.append(consumer_records.current_assignment(group.group_id, successor))
        return successor

    def refresh(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        records: list[LogRecord],
        *,
        bump: bool,
    ) -> int:
        """Look at the topics anew; the group's epoch after it, which grows if they changed or if it must anyway."""
        topics = group.subscriptions.topics_after([(before, after)])
        metadata_hash = self._hashes.of(topics, self._context.image)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(consumer_records.group_epoch(group.group_id, epoch, metadata_hash))
        group.metadata_stale = False
        if group.has_partition_metadata:
            records.append(consumer_records.partition_metadata_tombstone(group.group_id))
        return epoch

    def step(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: Target,
        owned: Owned | None,
        records: list[LogRecord],
        *,
        subscription_changed: bool,
    ) -> ConsumerMember:
        """Lead the member one step towards its target. Most heartbeats come from members that are there."""
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        aim = ReconciliationInput(
            target.epoch,
            target.assignment,
            group.subscriptions.topic_ids(member, self._context.image),
            group.is_free,
            owned,
            subscription_changed,
        )
        after = reconciled(member, aim)
        if after != member:
            records.append(consumer_records.current_assignment(group.group_id, after))
            self._sessions.after_step(group.group_id, after)
        return after


def append_subscription(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, records: list[LogRecord]
) -> bool:
    """Write down a member that is new or says something else; whether it names other topics."""
    if before != after:
        records.append(consumer_records.subscription(group.group_id, after))
    return before.topics != after.topics


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
) -> ConsumerMember:
    """The member with what the request tells; what it leaves out stays as it was."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    regex, assignor = request.subscribed_topic_regex, request.server_assignor
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if assignor is None else assignor,
        topics=member.topics if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )
