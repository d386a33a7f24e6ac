"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups and DeleteGroups.

Each is played in all of its versions; the other requests around it are in one that says the most.
"""

from __future__ import annotations

from typing import Any

from ottla.wire import codec
from ottla.wire.frames import request_frame
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.compat.differential.catalog import scenario
from tests.compat.differential.group_offsets import commit, erase, fetch, ready
from tests.compat.differential.player import Player
from tests.support.raw import RawClient

SESSION_MS = 30_000
JOIN, SYNC, BEAT, LEAVE = 9, 5, 4, 5
ASSIGNMENT = b"\0\0 what the leader planned"


def subscription(*topics: str) -> bytes:
    return b"\0\0" + codec.encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def join(group: str, member_id: str = "", *, topics: tuple[str, ...] = (), **fields: Any) -> JoinGroupRequest:
    defaults: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))],
    }
    return JoinGroupRequest(group_id=group, member_id=member_id, **(defaults | fields))


def sync(group: str, member_id: str, generation: int, version: int, **fields: Any) -> SyncGroupRequest:
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(
        group_id=group, member_id=member_id, generation_id=generation, **(protocol | fields)
    )


def plan(*member_ids: str) -> list[SyncGroupRequestAssignment]:
    return [SyncGroupRequestAssignment(member_id=each, assignment=ASSIGNMENT) for each in member_ids]


def told(player: Player, label: str, member_id: str) -> None:
    """Call an id that the broker made by a name from now on."""
    for name in ("member_id", "leader"):
        player.secrets.setdefault(name, {})[member_id] = label


def enter(player: Player, group: str, label: str, version: int, **fields: Any) -> str:
    """Join as the only member, with the round for an id where the version has it; returns the id."""
    answer = player.quietly(join(group, **fields), version)
    told(player, label, answer.member_id)
    player.keep(f"{label} asks", player.plain(answer))
    if answer.error_code == 79:
        answer = player.ask(f"{label} joins", join(group, answer.member_id, **fields), version)
    return str(answer.member_id)


def settled(player: Player, group: str, label: str = "first", **fields: Any) -> str:
    """A stable group of one member; returns its id."""
    member_id = enter(player, group, label, JOIN, **fields)
    player.ask(f"{label} syncs", sync(group, member_id, 1, SYNC, assignments=plan(member_id)), SYNC)
    return member_id


def described(player: Player, label: str, *groups: str) -> None:
    player.ask(f"{label}: described", DescribeGroupsRequest(groups=list(groups)), 6)


@scenario(JoinGroupRequest)
def join_group(player: Player) -> None:
    group, other, static = player.topic("group"), player.topic("other"), player.topic("static")
    version = player.version
    ready(player, group, other, static)
    for label, request in {
        "no group": join(""),
        "short session": join(other, session_timeout_ms=5),
        "long session": join(other, session_timeout_ms=2_000_000),
        "unknown member": join(other, "nobody"),
        "no protocols": join(other, protocols=[]),
        "no protocol type": join(other, protocol_type=""),
    }.items():
        player.ask(label, request)
    described(player, "refused", other)
    first = enter(player, group, "first", version)
    described(player, "joined", group)
    player.ask("commits too early", _commit(player, group, first, 1), 9)
    again = player.ask("first again", join(group, first))
    for label, request in {
        "another type": join(group, protocol_type="connect"),
        "another protocol": join(group, protocols=[JoinGroupRequestProtocol(name="sticky")]),
        "unknown member of it": join(group, "nobody"),
    }.items():
        player.ask(label, request)
    _second_member(player, group, first, again.generation_id)
    if version >= 5:
        instance = {"group_instance_id": "i"}
        one = enter(player, static, "instance", version, **instance)
        player.ask("instance syncs", sync(static, one, 1, SYNC, assignments=plan(one), **instance), SYNC)
        player.ask("a wrong instance", join(static, one, group_instance_id="j"))
        two = enter(player, static, "its successor", version, **instance)
        described(player, "replaced", static)
        for label, member_id in (("the fenced one", one), ("the successor", two)):
            beat = HeartbeatRequest(
                group_id=static, generation_id=1, member_id=member_id, group_instance_id="i"
            )
            player.ask(f"{label} beats", beat, BEAT)
        player.ask("the fenced one joins", join(static, one, **instance))


def _commit(player: Player, group: str, member_id: str, generation: int) -> OffsetCommitRequest:
    return commit(
        player,
        group,
        (player.topic("nowhere"), {0: 1}),
        version=9,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
    )


def _second_member(player: Player, group: str, first: str, generation: int) -> None:
    """Another member comes by a connection of its own; the first is told to join again."""
    version = player.version
    player.ask("first syncs", sync(group, first, generation, SYNC, assignments=plan(first)), SYNC)
    with RawClient(player.address) as another:
        request = join(group)
        if version >= 4:
            answer = another.ask(request, version, JoinGroupResponse)
            assert isinstance(answer, JoinGroupResponse)
            told(player, "second", answer.member_id)
            player.keep("second asks", player.plain(answer))
            request = join(group, answer.member_id)
        another.send(request_frame(request, version, 99, "raw"))
        beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=first)
        player.until(lambda: player.quietly(beat, BEAT).error_code == 27)
        if version >= 4:
            described(player, "preparing", group)
        leader = player.quietly(join(group, first), version)
        answer = another.read(11, version, JoinGroupResponse, 99)
        assert isinstance(answer, JoinGroupResponse)
        told(player, "second", answer.member_id)
        player.keep("second joins", player.plain(answer))
        player.keep("first joins with it", player.plain(leader))
        player.ask("old generation", beat, BEAT)
        ids = (first, answer.member_id)
        player.ask("leader syncs", sync(group, first, generation + 1, SYNC, assignments=plan(*ids)), SYNC)
        player.ask("second syncs", sync(group, ids[1], generation + 1, SYNC), SYNC)
        described(player, "two", group)


@scenario(SyncGroupRequest)
def sync_group(player: Player) -> None:
    group, nobody, empty = player.topic("group"), player.topic("nobody"), player.topic("empty")
    version = player.version
    ready(player, group, nobody, empty)
    player.quietly(commit(player, empty, (player.create("t"), {0: 1}), version=9), 9)
    member = enter(player, group, "first", JOIN)
    for label, request in {
        "no group": sync("", member, 1, version),
        "unknown group": sync(nobody, member, 1, version),
        "empty group": sync(empty, member, 1, version),
        "unknown member": sync(group, "nobody", 1, version),
        "another generation": sync(group, member, 9, version),
    }.items():
        player.ask(label, request)
    if version >= 5:
        for label, fields in {
            "no type": {"protocol_type": None},
            "no name": {"protocol_name": None},
            "another type": {"protocol_type": "connect"},
            "another name": {"protocol_name": "sticky"},
        }.items():
            player.ask(label, sync(group, member, 1, version, **fields))
    if version >= 3:
        player.ask("an instance", sync(group, member, 1, version, group_instance_id="i"))
    player.ask("the leader", sync(group, member, 1, version, assignments=plan(member, "nobody")))
    player.ask("again", sync(group, member, 1, version))
    described(player, "stable", group)


@scenario(HeartbeatRequest)
def heartbeat(player: Player) -> None:
    group, nobody = player.topic("group"), player.topic("nobody")
    ready(player, group, nobody)
    member = enter(player, group, "first", JOIN)

    def beat(label: str, name: str, member_id: str, generation: int, **fields: Any) -> None:
        request = HeartbeatRequest(group_id=name, member_id=member_id, generation_id=generation, **fields)
        player.ask(label, request)

    beat("no group", "", member, 1)
    beat("unknown group", nobody, member, 1)
    beat("before the plan", group, member, 1)
    player.quietly(sync(group, member, 1, SYNC, assignments=plan(member)), SYNC)
    beat("stable", group, member, 1)
    beat("another generation", group, member, 0)
    beat("unknown member", group, "nobody", 1)
    if player.version >= 3:
        beat("an instance", group, member, 1, group_instance_id="i")
    player.quietly(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)]), LEAVE)
    beat("after leaving", group, member, 1)


@scenario(LeaveGroupRequest)
def leave_group(player: Player) -> None:
    group, nobody, static = player.topic("group"), player.topic("nobody"), player.topic("static")
    ready(player, group, nobody, static)
    member = settled(player, group)
    many = player.version >= 3

    def leave(label: str, name: str, *members: tuple[str, str | None]) -> None:
        request = LeaveGroupRequest(group_id=name)
        if many:
            request.members = [MemberIdentity(member_id=one, group_instance_id=two) for one, two in members]
        else:
            request.member_id = members[0][0]
        player.ask(label, request)

    leave("no group", "", (member, None))
    leave("unknown group", nobody, (member, None))
    leave("unknown member", group, ("nobody", None))
    if many:
        leave("nobody at all", group)
        leave("unknown instance", group, (member, "i"))
        settled(player, static, "instance", group_instance_id="i")
        leave("wrong instance", static, ("nobody", "i"))
        leave("by instance, and others", static, ("", "i"), ("", "j"), ("nobody", None))
        described(player, "without instance", static)
    leave("itself", group, (member, None))
    leave("again", group, (member, None))
    described(player, "left", group)


@scenario(ListGroupsRequest)
def list_groups(player: Player) -> None:
    here = player.create("here")
    empty, stable = player.topic("empty"), player.topic("stable")
    ready(player, empty, stable)
    player.quietly(commit(player, empty, (here, {0: 1}), version=9), 9)
    settled(player, stable)

    def listed(label: str, **filters: list[str]) -> None:
        answer = player.quietly(ListGroupsRequest(**filters))
        own = [each for each in answer.groups if each.group_id.startswith(player.prefix)]
        own.sort(key=lambda each: each.group_id)
        player.keep(label, [player.plain(each) for each in own])
        player.keep(f"{label}: error", answer.error_code)

    listed("all")
    if player.version >= 4:
        for state in ("Empty", "stable", " STABLE ", "Dead", "nonsense", ""):
            listed(f"state {state!r}", states_filter=[state])
        listed("two states", states_filter=["Empty", "Stable"])
    if player.version >= 5:
        for kind in ("classic", "Classic", " classic", "consumer", "share", "nonsense", ""):
            listed(f"kind {kind!r}", types_filter=[kind])
        listed("both", states_filter=["Empty"], types_filter=["consumer", "classic"])


@scenario(DescribeGroupsRequest)
def describe_groups(player: Player) -> None:
    here = player.create("here")
    empty, stable, early = player.topic("empty"), player.topic("stable"), player.topic("early")
    nobody, left = player.topic("nobody"), player.topic("left")
    ready(player, empty, stable, early, nobody, left)
    player.quietly(commit(player, empty, (here, {0: 1}), version=9), 9)
    settled(player, stable, topics=(here,))
    enter(player, early, "early", JOIN)
    gone = settled(player, left, "gone")
    player.quietly(LeaveGroupRequest(group_id=left, members=[MemberIdentity(member_id=gone)]), LEAVE)
    for name in (empty, stable, early, nobody, left, ""):
        player.ask(f"{name}", DescribeGroupsRequest(groups=[name]))
    player.ask("all", DescribeGroupsRequest(groups=[empty, stable, nobody, empty]))
    player.ask("none", DescribeGroupsRequest(groups=[]))
    if player.version >= 3:
        asked = DescribeGroupsRequest(groups=[empty, nobody], include_authorized_operations=True)
        player.ask("operations", asked)


@scenario(DeleteGroupsRequest)
def delete_groups(player: Player) -> None:
    here, there = player.create("here", 2), player.create("there")
    empty, stable, nobody = player.topic("empty"), player.topic("stable"), player.topic("nobody")
    ready(player, empty, stable, nobody)
    player.quietly(commit(player, empty, (here, {0: 1, 1: 1}), version=9), 9)
    member = settled(player, stable, topics=(here,))
    both = (here, {0: 1}), (there, {0: 1})
    fields: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": 1}
    player.ask("a member commits", commit(player, stable, *both, version=9, **fields), 9)
    player.ask("somebody commits", commit(player, stable, *both, version=9), 9)
    player.ask("what is read stays", erase(stable, (here, [0]), (there, [0])), 0)
    player.ask("left", fetch(player, stable, everything=True, version=9), 9)
    player.ask("none", DeleteGroupsRequest(groups_names=[]))
    player.ask("all", DeleteGroupsRequest(groups_names=[empty, stable, nobody, empty, ""]))
    player.ask("again", DeleteGroupsRequest(groups_names=[empty]))
    player.ask("offsets", fetch(player, empty, everything=True, version=9), 9)
    described(player, "deleted", empty)
    player.quietly(LeaveGroupRequest(group_id=stable, members=[MemberIdentity(member_id=member)]), LEAVE)
    player.ask("when it was left", DeleteGroupsRequest(groups_names=[stable]))
