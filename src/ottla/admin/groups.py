"""Groups: list, describe with lag, delete, and delete committed offsets.

Classic groups and consumer groups (KIP-848) are described with their members; share groups and streams groups are
listed only. Lag in seconds is the age of the record at the committed offset: the first record that the group has not
processed. It is 0 if there is no such record.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.admin.log_offsets import EARLIEST, LATEST, leaders_of, list_offsets, record_timestamps
from ottla.admin.session import Session, check
from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Refused
from ottla.wire import codec
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
"""Types of groups."""
DESCRIBED = (CLASSIC, CONSUMER)
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of the groups of consumers."""
EMPTY, DEAD = "Empty", "Dead"
_FETCH_ONE_GROUP = 7
"""The newest version of OffsetFetch with a single group."""
_OLDER_DESCRIBE = 5
"""The newest version of DescribeGroups that describes an unknown group as Dead."""


@dataclass(frozen=True)
class GroupListing:
    """One group as its coordinator lists it."""

    name: str
    type: str
    """classic, consumer, share or streams."""
    protocol_type: str
    """consumer for groups of consumers; other applications have other names."""
    state: str
    coordinator: int


@dataclass(frozen=True)
class MemberInfo:
    """One member of a group, and the partitions that are assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    """The topics that the member has subscribed to."""
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that the member will have; only in consumer groups."""
    epoch: int | None = None
    """The member epoch; only in consumer groups."""
    rack: str | None = None
    regex: str | None = None


@dataclass(frozen=True)
class PartitionLag:
    """The position of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The committed offset; None for an assigned partition without one."""
    start: int | None
    end: int | None
    lag: int | None
    """Offsets from the committed offset to the end; None if one of them is not known."""
    lag_seconds: float | None
    """The age of the record at the committed offset; 0 if there is none, None if it could not be read."""
    metadata: str = ""
    """The text that was committed with the offset."""
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class GroupInfo:
    """One group with its members and its positions, ordered by topic and partition."""

    name: str
    type: str
    protocol_type: str
    state: str
    coordinator: int
    assignor: str = ""
    epoch: int | None = None
    """The group epoch and the epoch of its assignment; only in consumer groups."""
    assignment_epoch: int | None = None
    members: tuple[MemberInfo, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({each.topic for each in self.partitions}))

    @property
    def lag(self) -> int | None:
        """The sum over all partitions with a known lag; None if there is none."""
        known = [each.lag for each in self.partitions if each.lag is not None]
        return sum(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        """The largest lag of a partition in seconds; None if none is known."""
        return max(
            (each.lag_seconds for each in self.partitions if each.lag_seconds is not None), default=None
        )


def list_groups(session: Session) -> list[GroupListing]:
    """All groups, ordered by name. A broker that cannot be reached is left out: its groups move to another one."""
    found: dict[str, GroupListing] = {}
    responses, _ = session.broadcast(dict.fromkeys(session.nodes(), ListGroupsRequest()), ListGroupsResponse)
    for node, response in responses.items():
        check(f"listing the groups of broker {node}", _unless_loading(response.error_code))
        for one in response.groups:
            kind = one.group_type.lower() or CLASSIC
            found[one.group_id] = GroupListing(one.group_id, kind, one.protocol_type, one.group_state, node)
    return sorted(found.values(), key=lambda each: each.name)


def _unless_loading(code: int) -> int:
    """A broker that loads its groups lists those that it has loaded."""
    return ErrorCode.NONE if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code


def describe_group(session: Session, name: str, *, lag: bool = True) -> GroupInfo:
    """One group. Raise Refused if it does not exist."""
    return describe_groups(session, [name], lag=lag)[0]


def describe_groups(
    session: Session, names: Iterable[str], *, lag: bool = True, missing_ok: bool = False
) -> list[GroupInfo]:
    """These groups with members, and with positions and lag unless `lag` is False.

    The offsets of all groups are looked up together. A group that does not exist raises Refused; with `missing_ok` it
    is omitted, since a group may be deleted while all are described.
    """
    listed = {each.name: each for each in list_groups(session)}
    groups = []
    for name in dict.fromkeys(names):
        listing = listed.get(name)
        try:
            if listing is None:
                raise Refused(f"group {name}", ErrorCode.GROUP_ID_NOT_FOUND, "it does not exist")
            groups.append(_members(session, listing))
        except Refused as error:
            if not missing_ok or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
    return _with_lag(session, groups) if lag else groups


# --- members


def _members(session: Session, listing: GroupListing) -> GroupInfo:
    if listing.type == CONSUMER:
        return _describe_consumer(session, listing)
    if listing.type == CLASSIC:
        return _describe_classic(session, listing)
    return GroupInfo(listing.name, listing.type, listing.protocol_type, listing.state, listing.coordinator)


def _describe_classic(session: Session, listing: GroupListing) -> GroupInfo:
    name, what = listing.name, f"describing group {listing.name}"

    def attempt() -> GroupInfo:
        request = DescribeGroupsRequest(groups=[name])
        response = session.request_coordinator(name, request, DescribeGroupsResponse, newest=_OLDER_DESCRIBE)
        (group,) = response.groups
        session.check_coordinator(name, what, group.error_code, message=group.error_message)
        if group.group_state == DEAD:
            raise Refused(what, ErrorCode.GROUP_ID_NOT_FOUND, "it does not exist")
        return GroupInfo(
            name,
            CLASSIC,
            group.protocol_type,
            group.group_state,
            listing.coordinator,
            group.protocol_data,
            members=tuple(
                sorted(
                    (_classic_member(each, group.protocol_type) for each in group.members),
                    key=lambda each: each.member_id,
                )
            ),
        )

    return session.retrying(what, attempt)


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberInfo:
    topics: tuple[str, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER_PROTOCOL:
        topics, assigned = (
            read_subscription(member.member_metadata),
            read_assignment(member.member_assignment),
        )
    return MemberInfo(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, topics, assigned
    )


def read_subscription(data: bytes) -> tuple[str, ...]:
    """The topics in the metadata of a member; none if it cannot be decoded, since clients write it as they like."""
    try:
        (version,) = struct.unpack_from(">h", data)
        newest = ConsumerProtocolSubscription.SPEC.versions[-1]
        read = codec.decode(ConsumerProtocolSubscription, data, max(0, min(version, newest)), start=2)
    except (struct.error, RemoteProtocolError):
        return ()
    return tuple(sorted(read.topics))


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in the assignment of a member; none if it cannot be decoded."""
    try:
        (version,) = struct.unpack_from(">h", data)
        newest = ConsumerProtocolAssignment.SPEC.versions[-1]
        read = codec.decode(ConsumerProtocolAssignment, data, max(0, min(version, newest)), start=2)
    except (struct.error, RemoteProtocolError):
        return ()
    pairs = ((each.topic, index) for each in read.assigned_partitions for index in each.partitions)
    return tuple(sorted(TopicPartition(*pair) for pair in pairs))


def _describe_consumer(session: Session, listing: GroupListing) -> GroupInfo:
    name, what = listing.name, f"describing group {listing.name}"

    def attempt() -> GroupInfo:
        request = ConsumerGroupDescribeRequest(group_ids=[name])
        response = session.request_coordinator(name, request, ConsumerGroupDescribeResponse)
        (group,) = response.groups
        session.check_coordinator(name, what, group.error_code, message=group.error_message)
        members = (
            MemberInfo(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                tuple(sorted(one.subscribed_topic_names)),
                _partitions(one.assignment),
                _partitions(one.target_assignment),
                one.member_epoch,
                one.rack_id,
                one.subscribed_topic_regex or None,
            )
            for one in group.members
        )
        return GroupInfo(
            name,
            CONSUMER,
            CONSUMER_PROTOCOL,
            group.group_state,
            listing.coordinator,
            group.assignor_name,
            group.group_epoch,
            group.assignment_epoch,
            tuple(sorted(members, key=lambda each: each.member_id)),
        )

    return session.retrying(what, attempt)


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    pairs = ((each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions)
    return tuple(sorted(TopicPartition(*pair) for pair in pairs))


# --- offsets and lag


@dataclass(frozen=True)
class Committed:
    """A committed offset and the text that was committed with it."""

    offset: int
    metadata: str


def committed(session: Session, name: str) -> dict[TopicPartition, Committed]:
    """All committed offsets of a group; none if the group does not exist."""
    request = OffsetFetchRequest(group_id=name, topics=None)
    what = f"fetching the offsets of group {name}"

    def attempt() -> dict[TopicPartition, Committed]:
        response = session.request_coordinator(name, request, OffsetFetchResponse, newest=_FETCH_ONE_GROUP)
        session.check_coordinator(name, what, response.error_code)
        found = {}
        for topic in response.topics:
            for one in topic.partitions:
                check(f"{what}: {topic.name}-{one.partition_index}", one.error_code)
                if one.committed_offset >= 0:
                    tp = TopicPartition(topic.name, one.partition_index)
                    found[tp] = Committed(one.committed_offset, one.metadata or "")
        return found

    return session.retrying(what, attempt)


def _with_lag(session: Session, groups: Sequence[GroupInfo]) -> list[GroupInfo]:
    offsets = {each.name: committed(session, each.name) for each in groups if each.type in DESCRIBED}
    wanted = {tp for each in offsets.values() for tp in each}
    wanted |= {tp for group in groups for one in group.members for tp in one.assigned}
    leaders = leaders_of(session.metadata(sorted({tp.topic for tp in wanted}))) if wanted else {}
    known = {tp: leaders[tp] for tp in wanted if tp in leaders}
    starts = list_offsets(session, dict.fromkeys(known, EARLIEST), known)
    ends = list_offsets(session, dict.fromkeys(known, LATEST), known)
    now_ms = session.clock.now_ms()
    described = []
    for group in groups:
        positions = offsets.get(group.name, {})
        ages = _ages(session, positions, ends, known, now_ms)
        owners = {tp: one for one in group.members for tp in one.assigned}
        lags = []
        for tp in sorted({*positions, *owners}):
            owner, position = owners.get(tp), positions.get(tp)
            end = ends[tp][0] if tp in ends else None
            lags.append(
                PartitionLag(
                    tp.topic,
                    tp.partition,
                    None if position is None else position.offset,
                    starts[tp][0] if tp in starts else None,
                    end,
                    None if position is None or end is None else max(0, end - position.offset),
                    ages.get(tp),
                    "" if position is None else position.metadata,
                    None if owner is None else owner.member_id,
                    None if owner is None else owner.client_id,
                    None if owner is None else owner.host,
                )
            )
        described.append(replace(group, partitions=tuple(lags)))
    return described


def _ages(
    session: Session,
    positions: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, tuple[int, int]],
    leaders: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, float]:
    """The ages in seconds of the records at the committed offsets, 0 where there is none."""
    known = {tp: one.offset for tp, one in positions.items() if tp in ends}
    behind = {tp: offset for tp, offset in known.items() if offset < ends[tp][0]}
    stamps: dict[TopicPartition, int | None] = dict.fromkeys(known.keys() - behind.keys())
    if behind:
        stamps.update(record_timestamps(session, behind, leaders))
    return {tp: 0.0 if stamp is None else max(0.0, (now_ms - stamp) / 1000) for tp, stamp in stamps.items()}


# --- changes


def delete_groups(session: Session, names: Iterable[str]) -> None:
    """Delete groups without members, with their offsets. Raise Refused for the first that fails."""
    for name in dict.fromkeys(names):
        what = f"deleting group {name}"

        def attempt(name: str = name, what: str = what) -> None:
            request = DeleteGroupsRequest(groups_names=[name])
            response = session.request_coordinator(name, request, DeleteGroupsResponse)
            for each in response.results:
                session.check_coordinator(name, what, each.error_code, message=_HINTS.get(each.error_code))

        session.retrying(what, attempt)


_HINTS: Mapping[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "it does not exist",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "a member has subscribed to this topic; stop it first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",
}


def delete_offsets(session: Session, name: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete committed offsets of a group. Raise Refused for the first that fails."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    request = OffsetDeleteRequest(
        group_id=name,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
    )
    what = f"deleting offsets of group {name}"

    def attempt() -> None:
        response = session.request_coordinator(name, request, OffsetDeleteResponse)
        session.check_coordinator(name, what, response.error_code, message=_HINTS.get(response.error_code))
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                check(f"{what}: {tp}", one.error_code, _HINTS.get(one.error_code))

    session.retrying(what, attempt)
