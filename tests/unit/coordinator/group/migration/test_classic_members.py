"""Members of the classic protocol in a consumer group."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.consumer.sessions import join_timer, session_timer, sync_timer
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench, HeartbeatResult
from tests.support.group_bench import CLIENT


@pytest.fixture
def mixed(bench: ConsumerBench) -> ConsumerBench:
    """A consumer group: n uses the consumer protocol, c the classic one; both have two partitions."""
    bench.join("n", "t")
    bench.classic_join("c", "t")
    bench.beat("n", 2)
    bench.beat("n", 2, owned={"t": (0, 1)})
    bench.classic_join("c", "t")
    bench.synced("c", 3)
    assert bench.held() == {"n": {"t": (0, 1)}, "c": {"t": (2, 3)}}
    return bench


# --- joining


def test_a_new_member_must_join_again_with_its_member_id(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    first = bench.classic_join("", "t")
    assert (first.error_code, len(first.member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, 22)
    assert list(bench.group.members) == ["n"]
    second = bench.classic_join(first.member_id, "t")
    assert (second.error_code, second.member_id) == (ErrorCode.NONE, first.member_id)


def test_before_version_4_a_new_member_joins_with_one_request(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    response = bench.classic_join("", "t", version=3)
    assert response.error_code == ErrorCode.NONE
    assert response.member_id in bench.group.members


def test_a_join_gets_its_response_at_once_without_a_leader(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    response = bench.classic_join("c", "t", protocols=("sticky", "range"))
    assert (response.generation_id, response.protocol_type, response.protocol_name) == (
        3,
        "consumer",
        "sticky",
    )
    assert (response.leader, response.members) == ("", [])


def test_the_fields_of_a_join_are_stored(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    bench.classic_join("c", "t", "u", session_timeout_ms=12_000)
    member = bench.member("c")
    assert (member.topics, member.session_timeout_ms, member.uses_classic_protocol) == (
        {"t", "u"},
        12_000,
        True,
    )
    assert bench.timers.due_in(session_timer("g", "c")) == 12_000
    assert bench.timers.due_in(sync_timer("g", "c")) == TIMEOUT_MS


@pytest.mark.parametrize(
    ("fields", "code", "member_id"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        ({"protocols": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT, "d"),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID, ""),
    ],
)
def test_joins_that_are_refused(
    mixed: ConsumerBench, fields: dict[str, object], code: ErrorCode, member_id: str
) -> None:
    response = mixed.classic_join("d", "t", **fields)
    assert (response.error_code, response.member_id) == (code, member_id)
    assert "d" not in mixed.group.members


def test_the_first_classic_member_may_use_any_protocol(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    assert bench.classic_join("c", "t", protocols=("other",)).error_code == ErrorCode.NONE


def test_a_full_group_refuses_joins() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=1)
    bench.join("n", "t")
    assert bench.classic_join("c", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_malformed_subscriptions_are_refused(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    request = bench.classic_request("c", "t")
    request.protocols[0].metadata = b"\0"
    response = bench.write(lambda machine: machine.join(request, CLIENT, 9)).result()
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


# --- reconciliation


def test_a_classic_member_reconciles_by_heartbeats_joins_and_syncs(bench: ConsumerBench) -> None:
    member = bench.classic_group({"t": (0, 1, 2, 3)}, "t")
    bench.join("n", "t")
    assert bench.classic_beat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    response = bench.classic_join(member, "t", owned={"t": (0, 1, 2, 3)})
    assert response.generation_id == 1, "it must revoke two partitions first"
    kept = bench.synced(member, 1)
    assert len(kept["t"]) == 2
    assert bench.classic_beat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_join(member, "t", owned=kept).generation_id == 2
    assert bench.synced(member, 2) == kept
    assert bench.classic_beat(member, 2) is ErrorCode.NONE
    assert len((bench.beat("n", 2).parts or {})["t"]) == 2


def test_a_heartbeat_reports_released_partitions(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    bench.classic_join("c", "t")
    assert bench.synced("c", 3) == {}
    assert bench.classic_beat("c", 3) is ErrorCode.NONE, "n has not given up anything"
    bench.beat("n", 2)
    bench.beat("n", 2, owned={"t": (0, 1)})
    assert bench.classic_beat("c", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic_join("c", "t").generation_id == 3
    assert bench.synced("c", 3) == {"t": (2, 3)}


def test_a_sync_with_a_newer_target_reports_the_rebalance(mixed: ConsumerBench) -> None:
    mixed.join("m", "t")
    assert mixed.classic_sync("c", 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert mixed.timers.due_in(join_timer("g", "c")) == TIMEOUT_MS


def test_a_sync_with_another_protocol_is_refused(mixed: ConsumerBench) -> None:
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert mixed.classic_sync("c", 3, protocol_name="other").error_code == code
    assert mixed.classic_sync("c", 3, protocol_type="connect").error_code == code
    assert mixed.classic_sync("c", 3, protocol_name="range", protocol_type="consumer").error_code == 0


def test_requests_with_a_wrong_member_or_generation_are_refused(mixed: ConsumerBench) -> None:
    assert mixed.classic_beat("x", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.classic_beat("c", 2) is ErrorCode.ILLEGAL_GENERATION
    assert mixed.classic_beat("n", 3) is ErrorCode.UNKNOWN_MEMBER_ID, "n does not speak the classic protocol"
    assert mixed.classic_sync("n", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert mixed.classic_beat("c", 3, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


# --- timers


def test_a_member_that_does_not_rejoin_in_time_is_removed(mixed: ConsumerBench) -> None:
    mixed.join("m", "t")
    mixed.classic_beat("c", 3)
    for _ in range(3):
        mixed.advance(TIMEOUT_MS // 3)
        for name in ("n", "m"):
            mixed.beat(name, mixed.member(name).epoch)
        if "c" in mixed.group.members:
            mixed.classic_beat("c", 3)
    assert "c" not in mixed.group.members


def test_a_member_that_does_not_sync_in_time_is_removed(mixed: ConsumerBench) -> None:
    mixed.classic_join("c", "t")
    for _ in range(3):
        mixed.advance(TIMEOUT_MS // 3)
        mixed.beat("n", 3)
        if "c" in mixed.group.members:
            mixed.classic_beat("c", 3)
    assert "c" not in mixed.group.members


def test_a_member_expires_after_its_own_session_timeout(mixed: ConsumerBench) -> None:
    mixed.classic_join("c", "t", session_timeout_ms=7_000)
    mixed.advance(7_000)
    assert list(mixed.group.members) == ["n"]
    assert mixed.beat("n", 3) == HeartbeatResult(4, {"t": (0, 1, 2, 3)})


# --- leaving


def test_members_leave_one_by_one_or_together(mixed: ConsumerBench) -> None:
    assert mixed.classic_leave("x", "c") == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert list(mixed.group.members) == ["n"]
    assert mixed.group.epoch == 4
    assert mixed.classic_leave("n") == [ErrorCode.NONE], "administrators remove members of either protocol"
    assert mixed.group.is_empty()


def test_an_empty_leave_request_changes_nothing(mixed: ConsumerBench) -> None:
    mixed.written()
    assert mixed.classic_leave("x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert mixed.written() == []


def test_a_static_member_is_removed_by_its_instance_id(bench: ConsumerBench) -> None:
    bench.join("n", "t", instance_id="i")
    bench.join("m", "t")
    assert bench.classic_leave("x", instance="i") == [ErrorCode.FENCED_INSTANCE_ID]
    assert bench.classic_leave("", instance="j") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.classic_leave("", instance="i") == [ErrorCode.NONE]
    assert list(bench.group.members) == ["m"]
