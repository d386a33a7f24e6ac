"""The machine of a shard: listing, describing and deleting groups of all kinds, and the way of a request."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
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


def test_a_group_that_is_not_there_is_dead(bench: GroupBench) -> None:
    told = bench.machine.describe("nobody")
    assert (told.group_state, told.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert told.error_message == "Group nobody not found."


def test_a_classic_group_is_described_with_its_members(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    told = bench.machine.describe("g")
    assert (told.group_state, told.protocol_type, told.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.client_id, each.client_host) for each in told.members] == [
        (member, "client", "/127.0.0.1")
    ]


def test_a_classic_group_is_no_consumer_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    told = bench.machine.describe_consumer("g")
    assert (told.error_code, told.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
    assert bench.machine.describe_consumer("nobody").error_message == "Group nobody not found."


# --- deleting


def test_an_empty_group_goes_with_its_offsets(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit("other", 6)
    assert bench.delete_group("g") is ErrorCode.NONE
    assert bench.groups() == {"other": "Empty"}
    assert bench.fetch("g") == -1
    bench.restart()
    assert bench.groups() == {"other": "Empty"}
    assert bench.fetch("g") == -1


def test_a_group_with_members_stays(bench: GroupBench) -> None:
    member = bench.join("g", "t")
    bench.commit("g", 5, member=member, generation=1)
    assert bench.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    assert bench.fetch("g") == 5


def test_what_is_not_there_cannot_be_deleted(bench: GroupBench) -> None:
    assert bench.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_open_transactions_go_with_their_group(bench: GroupBench) -> None:
    bench.commit("g", 5)
    bench.commit_in_transaction(7, "g", 6)
    bench.commit_in_transaction(7, "g", 6, topic="u")
    assert bench.delete_group("g") is ErrorCode.NONE
    bench.end_transaction(7, 0, committed=True)
    assert bench.fetch_all("g") == {}
    assert bench.groups() == {}
    bench.restart()
    assert bench.fetch_all("g") == {}
