"""A consumer group, as replayed from the log.

Invariants:
- a partition belongs to at most one member. `_owners` maps each partition that is assigned to a member, or that the
  member has not revoked yet, to the epoch of that member. A partition that is not in it is free;
- epochs only grow: the epoch of a member follows the target's epoch, which follows the group's;
- an instance id belongs to one member.

Only the `replay_*` methods change state that the log stores. `metadata_stale` exists only in memory: topics may have
changed since the last metadata hash was computed.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.coordinator.group.assignors import ASSIGNORS
from ottla.coordinator.group.assignors.spec import NOTHING, Assignment
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_member import LEAVING, Assigned, ConsumerMember
from ottla.coordinator.group.consumer.subscription.subscriptions import Subscriptions
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex
from ottla.coordinator.group.consumer.transitions import GroupState, MemberState
from ottla.coordinator.group.group import Group, GroupKind, PartitionCheck
from ottla.coordinator.group.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.runtime.decision import LogRecord

PROTOCOL_TYPE = "consumer"
FIRST_EPOCH = 1
"""The initial epoch of a group and of its target assignment."""
NO_TARGET_EPOCH = -1
_OFFSET_COMMIT_WITH_MEMBER_EPOCH = 9


class ConsumerGroup(Group):
    """One group: its members, their target assignments and their current assignments."""

    __slots__ = (
        "_assignors",
        "_classic_protocols",
        "_owners",
        "classic_count",
        "epoch",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "metadata_stale",
        "static_members",
        "subscriptions",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    kind: ClassVar[GroupKind] = GroupKind.CONSUMER

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.metadata_stale = True
        self.has_partition_metadata = False
        """The log contains a record of subscribed topics, as coordinators before Kafka 4.1 wrote them."""
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        """The time of the target assignment; 0: unknown."""
        self.targets: dict[str, Assignment] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.subscriptions = Subscriptions()
        self.classic_count = 0
        """The number of members that use the classic protocol."""
        self._classic_protocols: dict[str, int] = {}
        self._assignors: dict[str, int] = {}
        self._owners: dict[uuid.UUID, dict[int, int]] = {}

    # Replay

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def replay_subscription(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put((member or ConsumerMember(member_id)).with_subscription(value))
        elif member is not None:
            invariant(member.epoch == LEAVING, f"{member_id} is deleted while it has partitions")
            invariant(
                member_id not in self.targets, f"{member_id} is deleted while it has a target assignment"
            )
            self._remove(member)

    def replay_current_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self._put((member or ConsumerMember(member_id)).with_current_assignment(value))
        elif member is not None:
            self._put(member.without_partitions())

    def replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            listed = {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
            self.targets[member_id] = listed

    def replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is None:
            invariant(
                not self.targets,
                f"the target epoch of {self.group_id} is deleted while members have target assignments",
            )
            self.target_epoch, self.target_timestamp_ms = NO_TARGET_EPOCH, 0
        else:
            self.target_epoch = value.assignment_epoch
            self.target_timestamp_ms = value.assignment_timestamp

    def replay_regex(self, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.subscriptions.resolved.pop(pattern, None)
        else:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.subscriptions.resolved[pattern] = resolved

    def _put(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._recount(before, member)
        if before is not None:
            self._release(before)
        self._own(member.assigned, member.epoch)
        self._own(member.revoking, member.epoch)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.member_id]
        self._recount(member, None)
        self._release(member)
        if self.static_members.get(member.instance_id or "") == member.member_id:
            del self.static_members[member.instance_id or ""]

    def _recount(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self.subscriptions.change(before, after)
        for member, step in ((before, -1), (after, 1)):
            if member is None:
                continue
            if member.assignor is not None:
                self._assignors[member.assignor] = self._assignors.get(member.assignor, 0) + step
            if member.classic is not None:
                self.classic_count += step
                for protocol in member.classic.supported_protocols:
                    speakers = self._classic_protocols.get(protocol.name, 0) + step
                    self._classic_protocols[protocol.name] = speakers

    def _own(self, partitions: Assigned, epoch: int) -> None:
        for topic, owned in partitions.items():
            epochs = self._owners.setdefault(topic, {})
            for partition in owned:
                before = epochs.get(partition)
                # In a partly compacted log the assignment of a partition may precede its revocation elsewhere.
                invariant(
                    before is None or before < epoch,
                    f"{topic}-{partition} is assigned at epoch {before} and cannot be assigned at epoch {epoch}",
                )
                epochs[partition] = epoch

    def _release(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.revoking):
            for topic, owned in partitions.items():
                epochs = self._owners.get(topic, {})
                for partition in owned:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    self._owners.pop(topic, None)

    # Derived state

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscriptions.has(topic)

    def is_free(self, topic_id: uuid.UUID, partition: int) -> bool:
        """Whether the partition is not assigned to a member and not waiting for revocation."""
        return partition not in self._owners.get(topic_id, {})

    def member(self, member_id: str) -> ConsumerMember:
        """The member with that id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Assignment:
        """The target assignment of the member; a static one inherits it from its predecessor."""
        if member.instance_id is None:
            return self.targets.get(member.member_id, NOTHING)
        before = self.static_members.get(member.instance_id)
        return NOTHING if before is None else self.targets.get(before, NOTHING)

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str | None:
        """The assignor that most members request, if one member changes; None if no member requests one."""
        votes = dict(self._assignors)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + step
        wanted = [name for name in ASSIGNORS if votes.get(name, 0) > 0]
        return max(wanted, key=lambda name: votes[name], default=None)

    def supports_classic(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member of the classic protocol with these protocols can join."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if self.is_empty():
            return bool(names)
        return any(self._classic_protocols.get(name, 0) == self.classic_count for name in names)

    def all_classic_without(self, leaving: list[ConsumerMember]) -> bool:
        """Whether only members of the classic protocol remain without these members."""
        classic = sum(member.uses_classic_protocol for member in leaving)
        return self.classic_count - classic == len(self.members) - len(leaving)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether the member waits for target partitions that other members have not released."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            not self.is_free(topic, partition)
            for topic, partitions in self.targets.get(member.member_id, NOTHING).items()
            for partition in partitions
            if partition not in member.assigned.get(topic, {})
        )

    # Checks of offset requests and deletion

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> PartitionCheck | None:
        epoch = generation_or_epoch
        # Admin clients and consumers that assign partitions themselves have no epoch: allowed in an empty group.
        if epoch < 0 and not self.members:
            return None
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if (
            not transactional
            and not member.uses_classic_protocol
            and api_version < _OFFSET_COMMIT_WITH_MEMBER_EPOCH
        ):
            text = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, f"Received {_name(member)} {epoch} is newer than current {member.epoch}.")

        def check(topic_id: uuid.UUID, partition: int) -> None:
            since = member.assigned_at(topic_id, partition)
            if since is None:
                raise _stale(member, f"Partition {topic_id}-{partition} is not assigned to the member.")
            if epoch < since:
                text = f"Received {_name(member)} {epoch} is older than {since} of {topic_id}-{partition}."
                raise _stale(member, text)

        return check

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            text = f"The received {_name(member)} {member_epoch} does not match the expected {member.epoch}."
            raise _stale(member, text)

    def validate_offset_delete(self) -> None:
        """Always allowed; the subscription is checked for each topic."""

    def validate_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[LogRecord]:
        return consumer_records.group_tombstones(self.group_id, self.members, self.subscriptions.resolved)

    def retention_start(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms


def _name(member: ConsumerMember) -> str:
    return "generation id" if member.uses_classic_protocol else "member epoch"


def _stale(member: ConsumerMember, text: str) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(code, text)
