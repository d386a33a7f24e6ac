"""ConsumerGroupHeartbeat of members that join a consumer group or are in it.

A heartbeat is decided in three steps, and each may append records:
1. the member is created or updated. A new subscription or changed topics raise the group epoch;
2. if the group epoch is ahead of the target epoch, a new target assignment is computed;
3. the member is reconciled one step towards its target assignment.

The response lists partitions only if they changed or if the request contains all fields.
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
    """The partitions that a member reports as owned."""
    if listed is None:
        return None
    owned: dict[Uuid, frozenset[int]] = {}
    for each in listed:
        owned[each.topic_id] = owned.get(each.topic_id, frozenset()) | frozenset(each.partitions)
    return owned


class ConsumerHeartbeat:
    """Decides heartbeats of members that do not leave."""

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
        regex = self._regexes.update(group, before, after, records, client.describes)
        epoch = group.epoch
        # A regular expression that is not resolved yet raises the epoch when it is resolved, not now.
        bump = names_changed or regex is RegexChange.RESOLVED
        if bump or group.metadata_stale:
            epoch = self.refresh(group, before, after, records, bump=bump)
        target = next_target(self._context, group, epoch, before, after, records)
        changed = names_changed or regex is not RegexChange.NONE
        after = self.step(group, after, target, owned, records, subscription_changed=changed)
        self._sessions.expect_heartbeat(group.group_id, member_id)
        with_assignment = is_full(request) or before.assigned != after.assigned
        return Decision(self._response(group, after, with_assignment=with_assignment), records)

    def _response(
        self, group: ConsumerGroup, member: ConsumerMember, *, with_assignment: bool
    ) -> ConsumerGroupHeartbeatResponse:
        settings = self._context.consumer_settings(group.group_id)
        listed = [
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=sorted(owned))
            for topic, owned in sorted(member.assigned.items())
        ]
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=Assignment(topic_partitions=listed) if with_assignment else None,
        )

    def _group(self, request: ConsumerGroupHeartbeatRequest, records: list[LogRecord]) -> ConsumerGroup:
        """The group of the request; a joining member creates it, or converts a classic group."""
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
        """The member before the update by this request."""
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
        """A static member that joins, or that returns with another member id and takes over its assignment.

        A member that has not left is not replaced, unless one of the two uses the classic protocol, in which a
        member cannot leave temporarily.
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
        """Compute the metadata hash again; returns the group epoch, raised if the hash changed or `bump` is set."""
        topics = group.subscriptions.topics_after([(before, after)])
        metadata_hash = self._hashes.of(topics, self._context.image)
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(consumer_records.group_epoch(group.group_id, epoch, metadata_hash))
        # If the new epoch is not appended, the next heartbeat must compute the hash again.
        group.metadata_stale = metadata_hash != group.metadata_hash
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
        """Reconcile the member one step. Most heartbeats come from members that are already reconciled."""
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
    """Append the subscription of a new or changed member; True if its topic names changed."""
    if before != after:
        records.append(consumer_records.subscription(group.group_id, after))
    return before.topics != after.topics


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
) -> ConsumerMember:
    """The member with the fields of the request; omitted fields keep their values."""
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
