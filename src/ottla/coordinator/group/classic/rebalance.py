"""The course of a rebalance: who is waited for, for how long, and what happens when all are there or time is up.

Three clocks drive a group, each a timer under a name of its own:

- *session*, one per member or pending id: silence for that long removes it. A member that waits for an answer of
  ours is excused, and its clock starts again with the answer;
- *join*, while PREPARING: when it ends, dynamic members that did not come back are removed. The first rebalance of
  an empty group waits `group.initial.rebalance.delay.ms`, longer as long as members keep coming, at most as long as
  the rebalance timeout of the first one;
- *sync*, after a join phase: members that do not ask for their assignment within the rebalance timeout are removed.

Timers name groups by id and look them up when they go off: the group may have gone, or changed its kind.
What is to be written is returned; nothing is written for a group that still has members, until its leader syncs.
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
"""A new member has no id to send heartbeats with. If it gives up and tries again, the one it left behind goes then."""

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
    """What a member is told of the present generation; its leader is told about everybody."""
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
    """Leads groups from one generation to the next."""

    __slots__ = ("_context", "_timers")

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._timers = context.timers

    # Sessions

    def restart_session_timer(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Start a member's session clock anew."""
        self.start_session_timer(group, member.member_id, member.session_timeout_ms)

    def start_session_timer(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Start a session clock of another length."""
        operation = partial(self._on_session_timeout, group.group_id, member_id)
        self._timers.schedule(session_timer(group.group_id, member_id), timeout_ms, operation)

    def cancel_session_timer(self, group: ClassicGroup, member_id: str) -> None:
        """Stop a session clock."""
        self._timers.cancel(session_timer(group.group_id, member_id))

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or pending id and its clock; what this means for the rebalance is for the caller to ask."""
        self.cancel_session_timer(group, member_id)
        group.remove(member_id)

    def stop(self, group: ClassicGroup, code: ErrorCode) -> None:
        """Answer all who wait with `code` and stop the group's clocks, for the group goes away as a classic group."""
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
        """Somebody is gone: those who are left rebalance, or need not wait for it any more."""
        if group.state is ClassicState.PREPARING:
            return self.complete(group) if group.has_all_joined else []
        if was_member and group.can_rebalance:
            return self.prepare(group)
        return []

    # The join phase

    def rebalance_or_complete(self, group: ClassicGroup) -> list[LogRecord]:
        """A member has joined: begin a rebalance, or end the one under way if it was the last to come."""
        return self.prepare(group) if group.can_rebalance else self.complete_if_joined(group)

    def prepare(self, group: ClassicGroup) -> list[LogRecord]:
        """Begin to gather a new generation."""
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
        """There will be no plan for this generation: whoever waits for it is told why, and nobody owns anything."""
        for member in group.members.values():
            member.assignment = b""
            if member.fail_sync(code):
                self.restart_session_timer(group, member)

    def complete_if_joined(self, group: ClassicGroup) -> list[LogRecord]:
        """End the join phase if all are there; the first one waits for more until its time is up."""
        if group.state is not ClassicState.PREPARING or group.is_first_rebalance or not group.has_all_joined:
            return []
        return self.complete(group)

    def complete(self, group: ClassicGroup) -> list[LogRecord]:
        """End the join phase with those who are there."""
        self._timers.cancel(join_timer(group.group_id))
        # An instance may be restarting: it keeps its place until its session or the sync clock ends.
        late = [
            member_id
            for member_id, member in group.members.items()
            if not member.awaits_join and member.instance_id is None
        ]
        for member_id in late:
            self.remove_member(group, member_id)
        if group.members and not group.select_joined_leader():
            # Only instances are left and none came: sessions will remove them, or they will come.
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
        """A member has asked for its assignment."""
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
