"""Rebalances of classic groups: the join and sync phases, and their timers.

A group has three kinds of timers:
- *session*, one per member or pending member id: without a heartbeat for that long the member is removed. It does not
  apply while the member waits for a response, and starts again with the response;
- *join*, while PREPARING: when it expires, dynamic members that have not joined again are removed. The first
  rebalance of an empty group waits `group.initial.rebalance.delay.ms`, and longer as long as new members join, at
  most for the rebalance timeout of the first member;
- *sync*, after a join phase: members that do not send SyncGroup within the rebalance timeout are removed.

Timers name groups by id and look them up when they expire: the group may have been deleted, or have another type.
Methods return the records to append. Nothing is appended for a group that has members until its leader sends
SyncGroup.
"""

from __future__ import annotations

from functools import partial

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.coordinator.group.classic.classic_records import group_record
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session timeout of a new member, which has no member id yet and cannot send heartbeats."""

_NOTHING: Decision[None] = Decision(None)


def session_timer(group_id: str, member_id: str) -> tuple[str, str, str]:
    return ("classic-session", group_id, member_id)


def join_timer(group_id: str) -> tuple[str, str]:
    return ("classic-join", group_id)


def sync_timer(group_id: str) -> tuple[str, str]:
    return ("classic-sync", group_id)


def joined_response(
    group: ClassicGroup, member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The response for the current generation; the leader gets the list of members."""
    name = group.protocol_name or ""
    members: list[JoinGroupResponseMember] = []
    if group.leader_id == member_id:
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(name),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


class Rebalances:
    """Runs the rebalances of all groups of a shard."""

    __slots__ = ("_context", "_timers")

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._timers = context.timers

    # Sessions

    def restart_session_timer(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart the session timer of a member."""
        self.start_session_timer(group, member.member_id, member.session_timeout_ms)

    def start_session_timer(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Start a session timer with a given timeout."""
        operation = partial(self._on_session_timeout, group.group_id, member_id)
        self._timers.schedule(session_timer(group.group_id, member_id), timeout_ms, operation)

    def cancel_session_timer(self, group: ClassicGroup, member_id: str) -> None:
        """Cancel a session timer."""
        self._timers.cancel(session_timer(group.group_id, member_id))

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or pending id and its timer. The caller handles the effect on the rebalance."""
        self.cancel_session_timer(group, member_id)
        group.remove(member_id)

    def stop(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Complete all waiting requests with `code` and cancel the timers, because the group is removed."""
        for member in group.members.values():
            group.complete_join(member, JoinGroupResponse(error_code=code, member_id=member.member_id))
            member.fail_sync(code)
        for member_id in (*group.members, *group.pending_joins):
            self.cancel_session_timer(group, member_id)
        self._timers.cancel(join_timer(group.group_id))
        self._timers.cancel(sync_timer(group.group_id))

    def _on_session_timeout(self, group_id: str, member_id: str) -> Decision[None]:
        group = self._find(group_id)
        if group is None:
            return _NOTHING
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending_joins:
            return _NOTHING
        if member is not None and member.is_exempt_from_heartbeats:
            return _NOTHING
        group.remove(member_id)
        return Decision(None, self.after_removal(group, was_member=member is not None))

    def after_removal(self, group: ClassicGroup, *, was_member: bool) -> list[LogRecord]:
        """After a member was removed: start a rebalance, or end the join phase if all others have joined."""
        if group.state is ClassicState.PREPARING:
            return self.complete(group) if group.has_all_joined else []
        if was_member and group.can_rebalance:
            return self.prepare(group)
        return []

    # The join phase

    def rebalance_or_complete(self, group: ClassicGroup) -> list[LogRecord]:
        """After a member has joined: start a rebalance, or end the join phase if all members have joined."""
        return self.prepare(group) if group.can_rebalance else self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup) -> list[LogRecord]:
        """Start a rebalance."""
        if group.state is ClassicState.COMPLETING:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(sync_timer(group.group_id))
        first = group.is_empty()
        group.transition_to(ClassicState.PREPARING)
        if first:
            delay_ms = self._context.settings.initial_rebalance_delay_ms
            self._wait_for_new_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return []
        if group.has_all_joined:
            return self.complete(group)
        self._wait_for_joins(group)
        return []

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Complete all waiting SyncGroup requests with an error and clear the assignments."""
        for member in group.members.values():
            member.assignment = b""
            if member.fail_sync(code):
                self.restart_session_timer(group, member)

    def complete_if_joined(self, group: ClassicGroup) -> list[LogRecord]:
        """End the join phase if all members have joined; the first rebalance waits for its timer."""
        if group.state is not ClassicState.PREPARING or group.is_first_rebalance or not group.has_all_joined:
            return []
        return self.complete(group)

    def complete(self, group: ClassicGroup) -> list[LogRecord]:
        """End the join phase with the members that have joined."""
        self._timers.cancel(join_timer(group.group_id))
        # A static member may be restarting: it stays a member until its session or sync timer expires.
        late = [
            member_id
            for member_id, member in group.members.items()
            if not member.awaits_join and member.instance_id is None
        ]
        for member_id in late:
            self.remove_member(group, member_id)
        if group.members and not group.select_joined_leader():
            # Only static members are left and none has joined: wait until they join or their sessions expire.
            self._wait_for_joins(group)
            return []
        group.begin_generation()
        if group.is_empty():
            return [group_record(group, {})]
        self._complete_joins(group)
        return []

    def _complete_joins(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            group.pending_syncs[member.member_id] = None
            member.is_new = False
            self.restart_session_timer(group, member)
            if member.awaits_join:
                group.complete_join(member, joined_response(group, member.member_id))
        operation = partial(self._on_sync_timeout, group.group_id)
        self._timers.schedule(sync_timer(group.group_id), group.rebalance_timeout_ms, operation)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        operation = partial(self._on_join_timeout, group.group_id)
        self._timers.schedule(join_timer(group.group_id), group.rebalance_timeout_ms, operation)

    def _on_join_timeout(self, group_id: str) -> Decision[None]:
        group = self._find(group_id)
        if group is None or group.state is not ClassicState.PREPARING:
            return _NOTHING
        return Decision(None, self.complete(group))

    def _wait_for_new_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        operation = partial(self._on_initial_delay, group.group_id, delay_ms, remaining_ms)
        self._timers.schedule(join_timer(group.group_id), delay_ms, operation)

    def _on_initial_delay(self, group_id: str, delay_ms: int, remaining_ms: int) -> Decision[None]:
        group = self._find(group_id)
        if group is None or group.state is not ClassicState.PREPARING:
            return _NOTHING
        if group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            next_delay_ms = min(self._context.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_new_members(group, next_delay_ms, max(remaining_ms - next_delay_ms, 0))
            return _NOTHING
        return Decision(None, self.complete(group))

    # The sync phase

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Record that a member has sent SyncGroup."""
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(sync_timer(group.group_id))

    def _on_sync_timeout(self, group_id: str) -> Decision[None]:
        group = self._find(group_id)
        if group is None or not group.pending_syncs:
            return _NOTHING
        for member_id in list(group.pending_syncs):
            self.remove_member(group, member_id)
        return Decision(None, self.prepare(group))

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) and group.state is not ClassicState.DEAD else None
