"""A classic group: its members, its generation, and the progress of its rebalance.

Invariants:
- the generation only grows, by one at the end of each join phase;
- every member supports at least one protocol that all members support, and all have the same protocol type;
- the leader is a member, if there are members;
- an instance id belongs to one member;
- a pending member id, returned with MEMBER_ID_REQUIRED, is not a member until the client joins with it.

Counters (`_joined`, `_supporters`) are updated with the members, so that no request iterates over all members.
Members are in the order in which they joined, which makes the behaviour deterministic.

The log stores generation, protocol, leader and members as of the last assignment. The rest exists only in memory.
Requests are decided in other modules (`rebalance`, `join_group`, `sync_group`, `leave_group`).
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.promise import Promise
from ottla.coordinator.group.classic.classic_member import ClassicMember, Protocols
from ottla.coordinator.group.classic.subscribed_topics import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.coordinator.group.classic.transitions import TRANSITIONS, ClassicState
from ottla.coordinator.group.group import Group, GroupKind
from ottla.coordinator.group.records import GroupMetadataKey
from ottla.coordinator.runtime.decision import LogRecord
from ottla.wire.messages.join_group import JoinGroupResponse


class ClassicGroup(Group):
    """One group and its members."""

    __slots__ = (
        "_clock",
        "_joined",
        "_protocol_type",
        "_supporters",
        "_topics",
        "assigned_generation",
        "generation",
        "is_upgraded",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "state",
        "state_since_ms",
        "static_members",
    )

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC

    def __init__(
        self,
        group_id: str,
        clock: Clock,
        *,
        state: ClassicState = ClassicState.EMPTY,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
        state_since_ms: int | None = None,
    ) -> None:
        super().__init__(group_id)
        self._clock = clock
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.state_since_ms = state_since_ms
        """The time of the last state change; None if an old record does not contain it."""
        self.generation = generation
        self._protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending_joins: dict[str, None] = {}
        """Member ids returned with MEMBER_ID_REQUIRED whose clients have not joined yet."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self.assigned_generation = -1
        """The generation of the last assignment that was appended to the log."""
        self.new_member_added = False
        """A member joined during the initial rebalance delay."""
        self.is_upgraded = False
        """A decision has replaced the group by a consumer group; its records may have been refused."""
        self._joined = 0
        self._supporters: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None

    # States

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self._protocol_type or ""

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose subscriptions the coordinator can decode."""
        return self._protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_first_rebalance(self) -> bool:
        """Whether an empty group waits for its first members, which gets an extra delay."""
        return self.state is ClassicState.PREPARING and self.previous_state is ClassicState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return TRANSITIONS.allows(self.state, ClassicState.PREPARING)

    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def transition_to(self, state: ClassicState) -> None:
        """Change the state. Raises InvariantViolation if the transition table does not allow it."""
        TRANSITIONS.check(self.state, state)
        self.previous_state, self.state = self.state, state
        self.state_since_ms = self._clock.now_ms()

    def begin_generation(self) -> None:
        """End the join phase: the members wait for the assignment; without members the group is empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.transition_to(ClassicState.COMPLETING if self.members else ClassicState.EMPTY)

    # Members

    def add(self, member: ClassicMember, promise: Promise[JoinGroupResponse] | None = None) -> None:
        """Add a member; with a promise it waits for the end of the join phase."""
        instance_id = member.instance_id
        invariant(instance_id not in self.static_members, f"instance id {instance_id} already has a member")
        if not self.members:
            self._protocol_type = member.protocol_type
        invariant(member.protocol_type == self.protocol_type, "a group has one protocol type")
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)
        if instance_id is not None:
            self.static_members[instance_id] = member.member_id
        self._count_protocols(member.protocols, 1)
        if promise is not None:
            self._park_join(member, promise)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        promise: Promise[JoinGroupResponse] | None,
    ) -> None:
        """Update a member that joins again."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        if promise is not None:
            self._park_join(member, promise)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id; the oldest other member replaces a removed leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member.protocols, -1)
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            self.complete_join(member, JoinGroupResponse(error_code=unknown))
            member.fail_sync(unknown)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def rename_static(self, instance_id: str, member_id: str) -> ClassicMember:
        """Give an instance a new member id; requests that wait under the old one fail with FENCED_INSTANCE_ID."""
        old = self.members[self.static_members[instance_id]]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.complete_join(old, JoinGroupResponse(error_code=fenced, member_id=old.member_id))
        old.fail_sync(fenced)
        new = old.named(member_id)
        del self.members[old.member_id]
        self.members[member_id] = new
        self.static_members[instance_id] = member_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[member_id] = None
        if self.leader_id == old.member_id:
            self.leader_id = member_id
        return new

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member with that id. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance has another id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """The timeout of a rebalance: the largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # The join phase

    @property
    def joined(self) -> int:
        """The number of members with a waiting JoinGroup."""
        return self._joined

    @property
    def has_all_joined(self) -> bool:
        """Whether all members have joined and no pending member id is left."""
        return self._joined == len(self.members) and not self.pending_joins

    def complete_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Complete a member's waiting JoinGroup, if there is one."""
        if member.complete_join(response):
            self._joined -= 1

    def select_joined_leader(self) -> bool:
        """Select a leader among the members that have joined; False if there is none."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is not None and leader.awaits_join:
            return True
        joined = next((member for member in self.members.values() if member.awaits_join), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def _park_join(self, member: ClassicMember, promise: Promise[JoinGroupResponse]) -> None:
        if not member.awaits_join:
            self._joined += 1
        member.park_join(promise)

    # Protocols

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether all members support one of these protocols."""
        if self.is_empty():
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self._protocol_type and any(
            self._supporters[name] == count for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Of the protocols that all members support, the one with the most votes."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def update_subscribed_topics(self) -> None:
        """Decode the subscribed topics from the members' metadata."""
        self._topics = None
        if self.uses_consumer_protocol:
            if not self.members:
                self._topics = frozenset()
            elif (name := self.protocol_name) is not None:
                self._topics = subscribed_topics(member.metadata(name) for member in self.members.values())

    def is_subscribed_to(self, topic: str) -> bool:
        # Consumers whose subscription is not known yet may subscribe to the topic.
        return self.uses_consumer_protocol if self._topics is None else topic in self._topics

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        for name in {name: None for name, _ in protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    # Checks of offset requests and deletion

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> None:
        if self.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and self.is_empty():
            # An admin client, or a consumer that assigns its partitions itself.
            return
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation_or_epoch != self.generation:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not self.is_empty():
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is ClassicState.COMPLETING:
            # The member has the new generation but not its assignment yet.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def validate_offset_delete(self) -> None:
        if self.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        if not self.is_empty() and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        if self.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")
        if not self.is_empty():
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[LogRecord]:
        return [LogRecord(GroupMetadataKey(group=self.group_id))]

    def retention_start(self, commit_timestamp_ms: int) -> int | None:
        if self._protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty():
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is ClassicState.STABLE and self._topics is not None:
            return commit_timestamp_ms
        return None
