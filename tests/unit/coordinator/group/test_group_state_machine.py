"""Dispatch by group type, and listing, describing and deleting groups."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.group import GroupKind
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest
from tests.support.group_bench import GroupBench


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench("t", "u")


# --- listing


def test_groups_are_listed_with_state_and_kind(bench: GroupBench) -> None:
    bench.commit("empty", 5)
    bench.join("stable", "t")
    assert bench.groups() == {"empty": "Empty", "stable": "Stable"}
    assert bench.groups(" emptY ") == {"empty": "Empty"}
    assert bench.groups("Stable", "Dead") == {"stable": "Stable"}
    assert bench.groups("nonsense") == {}
    assert bench.groups(kinds=["CLASSIC"]) == {"empty": "Empty", "stable": "Stable"}
    assert bench.groups(kinds=["consumer"]) == {}
    assert bench.groups(kinds=["nonsense"]) == {}
    assert bench.groups(kinds=[" classic"]) == {}
    assert bench.groups("Empty", kinds=["classic", "consumer"]) == {"empty": "Empty"}


# --- describing


def test_an_unknown_group_is_described_as_dead(bench: GroupBench) -> None:
    described = bench.machine.describe("unknown")
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert described.error_message == "Group unknown not found."


def test_a_classic_group_is_described_with_its_members(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    described = bench.machine.describe("g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert [(each.member_id, each.client_id, each.client_host) for each in described.members] == [
        (member, "client", "/127.0.0.1")
    ]


def test_a_classic_group_is_no_consumer_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    described = bench.machine.describe_consumer("g")
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
    assert bench.machine.describe_consumer("unknown").error_message == "Group unknown not found."


# --- deleting


def test_an_empty_group_is_deleted_with_its_offsets(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("other", 6)
    assert bench.delete_group("g") is ErrorCode.NONE
    assert bench.groups() == {"other": "Empty"}
    assert bench.fetch("g") == -1
    bench.restart()
    assert bench.groups() == {"other": "Empty"}
    assert bench.fetch("g") == -1


def test_a_group_with_members_is_not_deleted(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    assert bench.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    assert bench.fetch("g") == 5


def test_an_unknown_group_cannot_be_deleted(bench: GroupBench) -> None:
    assert bench.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND


def test_pending_offsets_are_deleted_with_their_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit_in_transaction(7, "g", 6)
    bench.commit_in_transaction(7, "g", 6, topic="u")
    assert bench.delete_group("g") is ErrorCode.NONE
    bench.end_transaction(7, 0, committed=True)
    assert bench.fetch_all("g") == {}
    assert bench.groups() == {}
    bench.restart()
    assert bench.fetch_all("g") == {}


# --- types of groups


def test_consumer_groups_are_listed_and_described_as_such(bench: GroupBench) -> None:
    bench.enter("g", "t")
    assert bench.groups(kinds=["consumer"]) == {"g": "Stable"}
    assert bench.groups(kinds=["classic"]) == {}
    described = bench.machine.describe_consumer("g")
    assert (described.error_code, described.group_state, [each.member_id for each in described.members]) == (
        0,
        "Stable",
        ["m"],
    )
    classic = bench.machine.describe("g")
    assert (classic.group_state, classic.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert classic.error_message == "Group g is not a classic group."


def test_members_of_consumer_groups_commit_in_their_epoch(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    assert bench.commit("g", 5, member="m", generation=epoch) is ErrorCode.NONE
    assert bench.commit("g", 6, member="m", generation=epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert bench.commit("g", 6, member="m", generation=epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert bench.commit("g", 6, member="m", generation=epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert bench.commit("g", 6, member="other", generation=epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.commit("g", 6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.fetch("g") == 5


def test_a_producer_gets_illegal_generation_for_a_stale_epoch(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    stale = bench.commit_in_transaction(7, "g", 5, member="m", generation=epoch - 1)
    assert stale is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit_in_transaction(7, "g", 5, member="m", generation=epoch) is ErrorCode.NONE


def test_offsets_of_subscribed_topics_are_not_deleted(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    for topic in ("t", "u"):
        bench.commit("g", 5, topic=topic, member="m", generation=epoch)
    assert bench.delete_offset("g", "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert bench.delete_offset("g", "u") is ErrorCode.NONE
    assert bench.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    assert bench.fetch_all("g") == {("t", 0): 5}


def test_a_group_that_only_had_offsets_becomes_a_consumer_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.enter("g", "t")
    for _ in range(2):
        assert bench.groups(kinds=["consumer"]) == {"g": "Stable"}
        assert bench.fetch("g") == 5
        bench.restart()


def test_an_empty_consumer_group_is_replaced_by_a_classic_group(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    bench.commit("g", 5, member="m", generation=epoch)
    bench.enter("g", epoch=-1)
    assert bench.groups(kinds=["consumer"]) == {"g": "Empty"}
    bench.join("g", "t")
    for _ in range(2):
        assert bench.machine.context.groups["g"].kind is GroupKind.CLASSIC
        assert bench.groups() == {"g": "Stable"}
        assert bench.fetch("g") == 5
        bench.restart()


def test_a_refused_join_does_not_replace_an_empty_consumer_group(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    bench.enter("g", epoch=-1)
    written = len(bench.log)
    beat = HeartbeatRequest(group_id="g", generation_id=epoch, member_id="m")
    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        bench.machine.heartbeat(beat)
    sync = SyncGroupRequest(group_id="g", generation_id=epoch, member_id="m")
    assert bench.write(lambda machine: machine.sync(sync)).result().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    (left,) = bench.write(lambda machine: machine.leave(leaving, 5)).result().members
    assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(bench.log) == written
    assert bench.groups(kinds=["consumer"]) == {"g": "Empty"}


def test_a_deleted_consumer_group_is_not_listed(bench: GroupBench) -> None:
    epoch = bench.enter("g", "t")
    bench.commit("g", 5, member="m", generation=epoch)
    bench.enter("g", epoch=-1)
    assert bench.delete_group("g") is ErrorCode.NONE
    for _ in range(2):
        assert bench.groups() == {}
        assert bench.fetch("g") == -1
        bench.restart()
