"""The log records of classic groups: one value per group, always written completely, and its tombstone."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.coordinator.runtime.decision import LogRecord

VALUE_VERSION = 3
"""The version that Apache Kafka 4.3 writes."""


def write_error(code: ErrorCode) -> ErrorCode:
    """The error for members whose group record was not appended: a record that is too large is a server error."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if code is ErrorCode.MESSAGE_TOO_LARGE else code


def new_group_record(group: ClassicGroup) -> LogRecord:
    """The first record of a group. It has no members: they are stored together with their assignment."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=_since(group))
    return LogRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def group_record(group: ClassicGroup, assignment: Mapping[str, bytes]) -> LogRecord:
    """The current group, each member with its assignment."""
    protocol = group.protocol_name
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=b"" if protocol is None else member.metadata(protocol),
            assignment=assignment[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=_since(group),
        members=members,
    )
    return LogRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def group_of(group_id: str, value: GroupMetadataValue, clock: Clock) -> ClassicGroup:
    """The group of a record: stable with members, empty without. States of a rebalance are not stored."""
    group = ClassicGroup(
        group_id,
        clock,
        state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
        state_since_ms=None if value.current_state_timestamp < 0 else value.current_state_timestamp,
    )
    for member in value.members:
        timeout_ms = member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout
        group.add(
            ClassicMember(
                member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=timeout_ms,
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", member.subscription),),
                assignment=member.assignment,
            )
        )
    group.update_subscribed_topics()
    return group


def _since(group: ClassicGroup) -> int:
    return -1 if group.state_since_ms is None else group.state_since_ms
