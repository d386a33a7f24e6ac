"""Members that use the classic protocol in a consumer group, while an online migration is in progress.

These members send JoinGroup, SyncGroup, Heartbeat and LeaveGroup and get responses of those APIs. No request waits for
another member: the generation of a member is its member epoch, a JoinGroup moves the member one step towards its target
assignment and gets its response at once, and a SyncGroup returns the partitions that are assigned now. There is no
group leader. A heartbeat returns REBALANCE_IN_PROGRESS when the member has partitions to revoke or to receive.
"""

from __future__ import annotations

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode, RemoteProtocolError
from ottla.base.ids import uuid_text
from ottla.base.rng import random_uuid
from ottla.coordinator.group.classic.leave_group import leave_group_response, leaving_members
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.heartbeat import ConsumerHeartbeat, append_subscription
from ottla.coordinator.group.consumer.member_removal import MemberRemoval
from ottla.coordinator.group.consumer.subscription.regex_refresh import RegexChange, RegexRefresh
from ottla.coordinator.group.consumer.target_assignment import current_target, is_due, next_target
from ottla.coordinator.group.consumer.transitions import MemberState
from ottla.coordinator.group.consumer.validation import check_fenced, check_room, known_static_member
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.migration import embedded_protocol
from ottla.coordinator.group.migration.conversion import DISABLED, can_downgrade_replacing, downgraded
from ottla.coordinator.group.records import ClassicMemberMetadata, ClassicProtocol
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED = 4
"""The first version of JoinGroup in which a new member must join again with the returned member id."""


class ClassicMembers:
    """Decides requests of the classic protocol to consumer groups."""

    __slots__ = ("_context", "_heartbeat", "_regexes", "_removal")

    def __init__(
        self,
        context: GroupContext,
        heartbeats: ConsumerHeartbeat,
        regexes: RegexRefresh,
        removal: MemberRemoval,
    ) -> None:
        self._context = context
        self._heartbeat = heartbeats
        self._regexes = regexes
        self._removal = removal

    # JoinGroup

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo, api_version: int
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id or uuid_text(random_uuid(self._context.rng))
        if api_version == 0:
            # Version 0 has one timeout for both.
            request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
        try:
            self._check_join(group, request, member_id)
            is_unknown = not request.member_id
            if is_unknown and request.group_instance_id is None and api_version >= _MEMBER_ID_REQUIRED:
                raise ApiError(ErrorCode.MEMBER_ID_REQUIRED)
            return self._join(group, request, client, member_id)
        except ApiError as error:
            given = {
                ErrorCode.MEMBER_ID_REQUIRED: member_id,
                ErrorCode.INVALID_SESSION_TIMEOUT: request.member_id,
            }
            return Decision(JoinGroupResponse(error_code=error.code, member_id=given.get(error.code, "")))

    def _check_join(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
        settings = self._context.settings
        lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not lowest <= request.session_timeout_ms <= highest:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if settings.consumer_migration_policy == DISABLED:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        check_room(group, member_id, settings.consumer_max_size)
        names = [each.name for each in request.protocols]
        if not names or not group.supports_classic(request.protocol_type, names):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo, member_id: str
    ) -> Decision[JoinGroupResponse]:
        records: list[LogRecord] = []
        before = self._member(group, request, member_id, records)
        predecessor = group.static_member(request.group_instance_id)
        downgrades = predecessor is not None and can_downgrade_replacing(self._context, group, predecessor)
        try:
            subscription = embedded_protocol.read_subscription(request.protocols[0].metadata)
        except RemoteProtocolError:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        after = _updated(before, request, client, subscription)
        names_changed = append_subscription(group, before, after, records)
        regex = self._regexes.update(group, before, after, records, client.describes)
        changed = names_changed or regex is not RegexChange.NONE
        epoch = group.epoch
        if changed or group.metadata_stale:
            epoch = self._heartbeat.refresh(group, before, after, records, bump=changed)
        owned = embedded_protocol.by_topic_id(subscription.owned_partitions, self._context.image)
        if downgrades:
            is_stale = group.target_epoch < epoch
            if not is_stale:
                target = current_target(group, after)
                after = self._heartbeat.step(
                    group, after, target, owned, records, subscription_changed=changed
                )
            records += downgraded(self._context, group, [], joining=after, rebalance=is_stale)
            forget = self._removal.forget_removed(group, list(group.members))
            return Decision(_joined(after), records, forget)
        target = next_target(self._context, group, epoch, before, after, records)
        after = self._heartbeat.step(group, after, target, owned, records, subscription_changed=changed)
        self._wait_for_sync(group, after)
        return Decision(_joined(after), records)

    @staticmethod
    def _member(
        group: ConsumerGroup, request: JoinGroupRequest, member_id: str, records: list[LogRecord]
    ) -> ConsumerMember:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return known_static_member(group, member_id, instance_id)
        return ConsumerHeartbeat.join_static_member(group, member_id, instance_id, records, classic=True)

    def _wait_for_sync(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        sessions, group_id = self._removal.sessions, group.group_id
        sessions.has_joined(group_id, member.member_id)
        sessions.expect_heartbeat(group_id, member.member_id, member.session_timeout_ms)
        sessions.expect_sync(group_id, member.member_id, member.rebalance_timeout_ms)

    # SyncGroup and Heartbeat

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        try:
            member = self._known(group, request.member_id, request.group_instance_id, request.generation_id)
            _check_protocol(member, request)
            if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._removal.sessions.expect_join(group.group_id, member)
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        except ApiError as error:
            return Decision(SyncGroupResponse(error_code=error.code))
        sessions = self._removal.sessions
        sessions.has_synced(group.group_id, member.member_id)
        sessions.expect_heartbeat(group.group_id, member.member_id, member.session_timeout_ms)
        version = embedded_protocol.version_of(_selected_protocol(member).metadata)
        return Decision(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=embedded_protocol.write_assignment(member.assigned, self._context.image, version),
            )
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Heartbeat; REBALANCE_IN_PROGRESS if the member must join again. Raises ApiError."""
        member = self._known(group, request.member_id, request.group_instance_id, request.generation_id)
        sessions = self._removal.sessions
        sessions.expect_heartbeat(group.group_id, member.member_id, member.session_timeout_ms)
        if not self._must_rejoin(group, member):
            return Decision(HeartbeatResponse())
        sessions.expect_join(group.group_id, member)
        return Decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def _must_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        if member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member):
            return True
        # Only a heartbeat of the consumer protocol or a join computes targets. If all members use the classic
        # protocol and the group cannot become a classic group, only this member's join computes the target.
        only_classic = group.classic_count == len(group.members)
        return only_classic and is_due(self._context, group, group.epoch)

    @staticmethod
    def _known(
        group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        static = None if instance_id is None else known_static_member(group, member_id, instance_id)
        member = static or group.member(member_id)
        _check_classic(member)
        if member.epoch != generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, api_version: int
    ) -> Decision[LeaveGroupResponse]:
        """LeaveGroup, for members of both protocols, because administrators use it to remove members."""
        responses: list[MemberResponse] = []
        members: dict[str, ConsumerMember] = {}
        for identity in leaving_members(request, api_version):
            code = ErrorCode.NONE
            try:
                member = self._leaving(group, identity)
                members[member.member_id] = member
            except ApiError as error:
                code = error.code
            responses.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
        return self._removal.remove(
            group, list(members.values()), leave_group_response(responses, api_version)
        )

    @staticmethod
    def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        if identity.group_instance_id is None:
            return group.member(identity.member_id)
        member = group.static_member(identity.group_instance_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if identity.member_id:
            check_fenced(member, identity.member_id)
        return member


def _check_classic(member: ConsumerMember) -> None:
    if not member.uses_classic_protocol:
        text = f"Member {member.member_id} does not use the classic protocol."
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def _selected_protocol(member: ConsumerMember) -> ClassicProtocol:
    """The selected protocol of a member: the first that it supports, because there is no vote."""
    classic = member.classic or ClassicMemberMetadata()
    return classic.supported_protocols[0]


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, PROTOCOL_TYPE):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name not in (None, _selected_protocol(member).name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=_selected_protocol(member).name,
    )


def _updated(
    member: ConsumerMember,
    request: JoinGroupRequest,
    client: ClientInfo,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    timeout_ms, instance_id = request.rebalance_timeout_ms, request.group_instance_id
    return replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=frozenset(subscription.topics),
        topic_regex="",
        client_id=client.client_id,
        client_host=client.host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
            ],
        ),
    )
