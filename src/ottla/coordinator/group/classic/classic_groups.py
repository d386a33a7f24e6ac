"""The classic groups of one shard: requests and replay.

While the log is loaded, each record replaces the group. After loading, the state in memory is ahead of the log,
because it includes members that are joining. So the replay of this broker's own record does not change the group, and
a tombstone removes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_records import group_of
from ottla.coordinator.group.classic.join_group import JoinGroup
from ottla.coordinator.group.classic.leave_group import LeaveGroup, leave_group_response, leaving_members
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.sync_group import SyncGroup
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.records import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.runtime.decision import Decision
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroups:
    """All classic groups of a shard."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._loaded = False
        self.rebalances = Rebalances(context)
        self._join_group = JoinGroup(context, self.rebalances)
        self._sync_group = SyncGroup(self.rebalances)
        self._leave_group = LeaveGroup(self.rebalances)

    # Requests

    def join(
        self, request: JoinGroupRequest, client: ClientInfo, api_version: int
    ) -> Decision[JoinGroupResponse]:
        """JoinGroup; the response is sent when the join phase ends."""
        return self._join_group.join(request, client, api_version)

    def sync(self, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        """SyncGroup."""
        if not request.group_id:
            return Decision(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.find(request.group_id)
        if group is None or group.is_empty():
            return Decision(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if group.state is ClassicState.DEAD:
            return Decision(SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return self._sync_group.sync(group, request)

    def heartbeat(self, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Heartbeat. Raises ApiError."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self.find(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._sync_group.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest, api_version: int) -> Decision[LeaveGroupResponse]:
        """LeaveGroup."""
        if not request.group_id:
            return Decision(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.find(request.group_id)
        if group is not None:
            return self._leave_group.leave(group, request, api_version)
        unknown = [
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for each in leaving_members(request, api_version)
        ]
        return Decision(leave_group_response(unknown, api_version))

    @staticmethod
    def describe(group: ClassicGroup) -> DescribedGroup:
        """DescribeGroups: protocol and metadata are shown only while the group is stable."""
        protocol = group.protocol_name or "" if group.state is ClassicState.STABLE else ""
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol,
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(protocol) if protocol else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # The table of groups

    def find(self, group_id: str) -> ClassicGroup | None:
        """The classic group with that id."""
        group = self._context.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def ensure(self, group_id: str) -> None:
        """Create an empty group if there is none, for the offsets of consumers that are not members."""
        if group_id not in self._context.groups:
            now_ms = self._context.clock.now_ms()
            self._context.groups[group_id] = ClassicGroup(
                group_id, self._context.clock, state_since_ms=now_ms
            )

    def keep_alive(self, group: ClassicGroup, member_id: str) -> None:
        """Restart the session timer of a member that commits offsets, as for a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (ClassicState.STABLE, ClassicState.PREPARING):
            self.rebalances.restart_session_timer(group, member)

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Apply a record of the log."""
        known = self.find(key.group)
        if value is None:
            if known is not None:
                # The members of an upgraded group stay members; they must join again.
                upgraded, unknown = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID
                self.rebalances.stop(known, upgraded if known.is_upgraded else unknown)
                known.transition_to(ClassicState.DEAD)
                del self._context.groups[key.group]
        elif known is None or not self._loaded:
            self._context.groups[key.group] = group_of(key.group, value, self._context.clock)

    def on_loaded(self) -> None:
        """Start a session timer for every member; a group above `group.max.size` starts a rebalance."""
        self._loaded = True
        for group in self._all():
            for member in group.members.values():
                self.rebalances.restart_session_timer(group, member)
            if len(group.members) > self._context.settings.max_size:
                self.rebalances.prepare(group)

    def on_unloaded(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR."""
        for group in self._all():
            self.rebalances.stop(group, ErrorCode.NOT_COORDINATOR)
            group.transition_to(ClassicState.DEAD)

    def _all(self) -> Iterator[ClassicGroup]:
        return (group for group in self._context.groups.values() if isinstance(group, ClassicGroup))
