"""LeaveGroup for classic groups: members leave, or an administrator removes them."""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_VERSION = 3


def leaving_members(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """The members to remove: before version 3 only the sender."""
    if api_version < BATCH_VERSION:
        return [MemberIdentity(member_id=request.member_id)]
    return request.members


def leave_group_response(members: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """The response; before version 3 the error of the only member is the error of the response."""
    if api_version < BATCH_VERSION:
        return LeaveGroupResponse(error_code=members[0].error_code)
    return LeaveGroupResponse(members=members)


class LeaveGroup:
    """Decides LeaveGroup requests."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest, api_version: int
    ) -> Decision[LeaveGroupResponse]:
        """Remove members, with one rebalance for all of them."""
        if group.state is ClassicState.DEAD:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        responses = [self._leave(group, identity) for identity in leaving_members(request, api_version)]
        left = any(each.error_code == ErrorCode.NONE for each in responses)
        return Decision(leave_group_response(responses, api_version), self._after(group) if left else [])

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        code = ErrorCode.NONE
        try:
            self._rebalances.remove_member(group, self._find(group, identity))
        except ApiError as error:
            code = error.code
        return MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
        )

    @staticmethod
    def _find(group: ClassicGroup, identity: MemberIdentity) -> str:
        """The id of the member to remove. An administrator may name an instance id without a member id."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        elif member_id in group.pending_joins:
            return member_id
        return group.check_member(member_id, instance_id).member_id

    def _after(self, group: ClassicGroup) -> list[LogRecord]:
        if group.state is ClassicState.PREPARING:
            return self._rebalances.complete_if_joined(group)
        return [] if group.is_empty() else self._rebalances.prepare(group)
