"""JoinGroup for classic groups: admits members, assigns member ids, and starts rebalances.

A client without a member id gets one. From version 4 on it must join again with that id before it becomes a member
(MEMBER_ID_REQUIRED). Otherwise a client that gives up and retries would leave a member behind with every attempt. A
static member needs no second request: its instance id identifies it, and a new join with the same instance id fences
the previous member.

A static member that joins again while the group is stable, and whose metadata does not change the protocol, gets its
previous assignment under its new member id without a rebalance. The new id is appended to the log, so that it
survives a failover.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.rng import random_uuid
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember, Protocols
from ottla.coordinator.group.classic.classic_records import group_record, new_group_record, write_error
from ottla.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalances, joined_response
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

KNOWN_MEMBER_ID_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
_PREFIX_CHARACTERS_MAX = 255


class JoinAttempt:
    """One JoinGroup request while it is decided."""

    __slots__ = ("api_version", "client", "promise", "protocols", "rebalance_timeout_ms", "request")

    def __init__(self, request: JoinGroupRequest, client: ClientInfo, api_version: int) -> None:
        self.request = request
        self.client = client
        self.api_version = api_version
        self.promise: Promise[JoinGroupResponse] = Promise()
        self.protocols: Protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
        # Version 0 has one timeout for both.
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms if api_version > 0 else request.session_timeout_ms
        )

    def refuse(self, code: ErrorCode, member_id: str) -> Decision[JoinGroupResponse]:
        """Respond with an error."""
        return Decision(JoinGroupResponse(error_code=code, member_id=member_id))

    def parked(self, records: list[LogRecord]) -> Decision[JoinGroupResponse]:
        """Respond when the join phase ends, which may have happened already."""
        return Decision(self.promise, records)


class JoinGroup:
    """Decides JoinGroup requests."""

    __slots__ = ("_context", "_rebalances")

    def __init__(self, context: GroupContext, rebalances: Rebalances) -> None:
        self._context = context
        self._rebalances = rebalances

    def join(
        self, request: JoinGroupRequest, client: ClientInfo, api_version: int
    ) -> Decision[JoinGroupResponse]:
        """Add a client to a classic group; the group is created if it does not exist."""
        join = JoinAttempt(request, client, api_version)
        refusal = self._refusal(request)
        if refusal is not None:
            return join.refuse(refusal, request.member_id)
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._join(group, join)
        if request.member_id:
            return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return self._create_group(join)

    def _refusal(self, request: JoinGroupRequest) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        settings = self._context.settings
        lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not lowest <= request.session_timeout_ms <= highest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return None

    def _create_group(self, join: JoinAttempt) -> Decision[JoinGroupResponse]:
        """Create the group and append its first record."""
        group_id = join.request.group_id
        clock = self._context.clock
        group = ClassicGroup(group_id, clock, state_since_ms=clock.now_ms())
        self._context.groups[group_id] = group
        decision = self._join(group, join)

        def on_complete(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE and self._context.groups.get(group_id) is group:
                self._rebalances.stop(group, write_error(code))
                del self._context.groups[group_id]

        return Decision(decision.response, [new_group_record(group), *decision.records], on_complete)

    def _join(self, group: ClassicGroup, join: JoinAttempt) -> Decision[JoinGroupResponse]:
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            self._rebalances.remove_member(group, member_id)
            records = self._rebalances.complete_if_joined(group)
            return Decision(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED), records)
        if group.state is ClassicState.DEAD:
            return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.accepts(join.request.protocol_type, join.protocols):
            return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id:
            return self._join_known(group, join)
        if join.request.group_instance_id is not None:
            return self._join_instance(group, join, join.request.group_instance_id)
        return self._join_unknown(group, join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        size_max = self._context.settings.max_size
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING:
            # Members that have joined count: if the limit was lowered, the last ones to join again are refused.
            return (member is not None and member.awaits_join) or group.joined < size_max
        if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
            return member is not None or len(group.members) < size_max
        return True

    # Clients without a member id

    def _join_unknown(self, group: ClassicGroup, join: JoinAttempt) -> Decision[JoinGroupResponse]:
        member_id = self._new_member_id(join.client.client_id)
        if join.api_version < KNOWN_MEMBER_ID_VERSION:
            return self._add(group, join, member_id)
        group.pending_joins[member_id] = None
        self._rebalances.start_session_timer(group, member_id, join.request.session_timeout_ms)
        return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_instance(
        self, group: ClassicGroup, join: JoinAttempt, instance_id: str
    ) -> Decision[JoinGroupResponse]:
        member_id = self._new_member_id(instance_id)
        if instance_id not in group.static_members:
            return self._add(group, join, member_id)
        return self._replace(group, join, instance_id, member_id)

    def _new_member_id(self, prefix: str) -> str:
        # The client id and the instance id have up to 32,767 bytes, and so may have the member id at most.
        return f"{prefix[:_PREFIX_CHARACTERS_MAX]}-{random_uuid(self._context.rng)}"

    def _add(self, group: ClassicGroup, join: JoinAttempt, member_id: str) -> Decision[JoinGroupResponse]:
        request = join.request
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=join.client.client_id,
            client_host=join.client.host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=join.protocols,
        )
        member.is_new = True
        if group.is_first_rebalance:
            group.new_member_added = True
        group.add(member, join.promise)
        self._rebalances.start_session_timer(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return join.parked(self._rebalances.rebalance_or_complete(group))

    # Clients with a member id

    def _join_known(self, group: ClassicGroup, join: JoinAttempt) -> Decision[JoinGroupResponse]:
        member_id, instance_id = join.request.member_id, join.request.group_instance_id
        if member_id in group.pending_joins:
            if instance_id is not None:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "the member id of a dynamic member was used with an instance id",
                )
            return self._add(group, join, member_id)
        try:
            member = group.check_member(member_id, instance_id)
        except ApiError as error:
            return join.refuse(error.code, member_id)
        if self._is_current(group, join, member):
            # The member may have missed the response: send it again.
            return Decision(joined_response(group, member_id))
        self._update(group, join, member)
        return join.parked(self._rebalances.rebalance_or_complete(group))

    @staticmethod
    def _is_current(group: ClassicGroup, join: JoinAttempt, member: ClassicMember) -> bool:
        """Whether the current generation needs no change for the member.

        The leader of a stable group can start a rebalance at any time, because only the leader notices some changes.
        """
        if member.protocols != join.protocols:
            return False
        if group.state is ClassicState.STABLE:
            return group.leader_id != member.member_id
        return group.state is ClassicState.COMPLETING

    @staticmethod
    def _update(group: ClassicGroup, join: JoinAttempt, member: ClassicMember) -> None:
        group.update(
            member,
            join.protocols,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.request.session_timeout_ms,
            promise=join.promise,
        )

    # Static members that join again

    def _replace(
        self, group: ClassicGroup, join: JoinAttempt, instance_id: str, member_id: str
    ) -> Decision[JoinGroupResponse]:
        old_id = group.static_members[instance_id]
        old_leader = group.leader_id
        before = group.members[old_id]
        member = group.rename_static(instance_id, member_id)
        self._rebalances.cancel_session_timer(group, old_id)
        self._rebalances.restart_session_timer(group, member)
        self._update(group, join, member)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
            return self._keep_assignment(group, join, before, member, old_leader)
        if group.state is ClassicState.PREPARING:
            return join.parked(self._rebalances.complete_if_joined(group))
        return join.parked(self._rebalances.prepare(group))

    def _keep_assignment(
        self,
        group: ClassicGroup,
        join: JoinAttempt,
        before: ClassicMember,
        member: ClassicMember,
        old_leader: str | None,
    ) -> Decision[JoinGroupResponse]:
        """Append the new member id, then respond, without a rebalance.

        A leader with a version before 9 gets the previous leader's id, so that it does not compute an assignment.
        """
        can_skip = join.api_version >= SKIP_ASSIGNMENT_VERSION

        def on_complete(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                self._undo_replacement(group, before, member, write_error(code))
            elif group.state is not ClassicState.STABLE:
                # A rebalance has started since; it includes this join and completes it.
                return
            elif can_skip:
                leads = group.leader_id == member.member_id
                group.complete_join(member, joined_response(group, member.member_id, skip_assignment=leads))
            else:
                response = joined_response(group, member.member_id)
                response.leader, response.members = old_leader or "", []
                group.complete_join(member, response)

        assignment = {each.member_id: each.assignment for each in group.members.values()}
        return Decision(join.promise, [group_record(group, assignment)], on_complete)

    def _undo_replacement(
        self, group: ClassicGroup, before: ClassicMember, member: ClassicMember, code: ErrorCode
    ) -> None:
        """Restore the old member id, because the new one was not appended."""
        instance_id = before.instance_id
        if instance_id is None or group.static_members.get(instance_id) != member.member_id:
            return
        group.complete_join(member, JoinGroupResponse(error_code=code))
        group.update(
            member,
            before.protocols,
            rebalance_timeout_ms=before.rebalance_timeout_ms,
            session_timeout_ms=before.session_timeout_ms,
            promise=None,
        )
        self._rebalances.cancel_session_timer(group, member.member_id)
        self._rebalances.restart_session_timer(group, group.rename_static(instance_id, before.member_id))
