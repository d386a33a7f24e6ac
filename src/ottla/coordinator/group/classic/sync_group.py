"""SyncGroup and Heartbeat for classic groups.

The leader's assignment is appended once per generation. When it is committed, the members get it and the group is
stable. So an assignment that a member has seen survives a failover. If it cannot be appended, all waiting members get
the error and join again.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.promise import Promise
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_records import group_record, write_error
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.runtime.decision import Decision
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class SyncGroup:
    """Decides SyncGroup and Heartbeat requests."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        """Return a member's assignment, at once or when the leader's assignment is committed."""
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            return Decision(SyncGroupResponse(error_code=error.code))
        refusal = self._refusal(group, request)
        if refusal is not None:
            return Decision(SyncGroupResponse(error_code=refusal))
        self._rebalances.synced(group, member.member_id)
        if group.state is ClassicState.STABLE:
            # The member has not sent a heartbeat yet in this generation, if it has got the response to its join late.
            self._rebalances.restart_session_timer(group, member)
            return Decision(_assigned(group, member.assignment))
        promise: Promise[SyncGroupResponse] = Promise()
        member.park_sync(promise)
        if group.leader_id != member.member_id or group.assigned_generation == group.generation:
            return Decision(promise)
        return self._append_assignment(group, request, promise)

    @staticmethod
    def _refusal(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if None not in (request.protocol_name, group.protocol_name) and (
            request.protocol_name != group.protocol_name
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING else None

    def _append_assignment(
        self, group: ClassicGroup, request: SyncGroupRequest, promise: Promise[SyncGroupResponse]
    ) -> Decision[SyncGroupResponse]:
        """Append the leader's assignment; a member that it does not contain gets an empty one."""
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignment = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.assigned_generation = group.generation

        def on_complete(code: ErrorCode) -> None:
            # A member may have joined or left since; then this assignment is obsolete.
            if group.state is not ClassicState.COMPLETING or group.generation != generation:
                return
            if code is ErrorCode.NONE:
                self._propagate(group, assignment)
            else:
                self._rebalances.fail_syncs(group, write_error(code))
                records = self._rebalances.prepare(group)
                invariant(not records, "a rebalance that starts with members appends nothing")

        return Decision(promise, [group_record(group, assignment)], on_complete)

    def _propagate(self, group: ClassicGroup, assignment: dict[str, bytes]) -> None:
        group.transition_to(ClassicState.STABLE)
        for member in group.members.values():
            member.assignment = assignment[member.member_id]
            if member.complete_sync(_assigned(group, member.assignment)):
                self._rebalances.restart_session_timer(group, member)

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Restart the session timer; REBALANCE_IN_PROGRESS if the member must join again."""
        if group.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        self._rebalances.restart_session_timer(group, member)
        rejoin = group.state is ClassicState.PREPARING
        return Decision(
            HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rejoin else ErrorCode.NONE)
        )


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )
