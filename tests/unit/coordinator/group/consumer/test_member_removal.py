"""Removal of members that leave or expire."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.coordinator.group.consumer.sessions import revocation_timer, session_timer
from tests.support.consumer_bench import TIMEOUT_MS, ConsumerBench, HeartbeatResult
from tests.support.group_bench import CLIENT
from tests.support.metadata import topic_id_of

SESSION_MS = 45_000


def names(bench: ConsumerBench) -> list[str]:
    return [
        ("-" if record.value is None else "")
        + type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        for record in bench.written()
    ]


# --- leaving


def test_a_member_that_leaves_is_deleted_and_the_epoch_raised(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.written()
    assert bench.beat("a", -1) == HeartbeatResult(-1, None)
    assert names(bench) == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "Metadata",
    ]
    assert (bench.group.epoch, bench.group.is_empty()) == (3, True)
    assert bench.group.metadata_hash == 0
    assert not bench.timers.is_scheduled(session_timer("g", "a"))


def test_a_member_whose_leaving_the_log_refused_is_removed_after_its_session(bench: ConsumerBench) -> None:
    """A client that closes does not try again."""
    bench.join("a", "t")
    bench.join("b", "t")
    bench.settle("a", "b")
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    leaving = bench.request("a", -1)
    assert not bench.write(lambda machine: machine.consumer_heartbeat(leaving, CLIENT, 1)).done
    bench.refuse = None
    bench.advance(SESSION_MS // 2)
    bench.beat("b", 3)
    bench.advance(SESSION_MS // 2)
    assert list(bench.group.members) == ["b"]
    assert bench.beat("b", 3) == HeartbeatResult(4, {"t": (0, 1, 2, 3)})


def test_a_member_that_joined_again_with_its_id_keeps_its_session(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    decision = bench.machine.consumer_heartbeat(bench.request("a", -1), CLIENT, 1)
    committed, decision.on_complete = decision.on_complete, None
    bench.apply(decision)
    bench.join("a", "t")
    assert committed is not None
    committed(ErrorCode.NONE)
    assert bench.timers.is_scheduled(session_timer("g", "a"))


def test_its_partitions_are_assigned_to_the_others(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.settle("a", "b")
    bench.beat("a", -1)
    assert bench.beat("b", 3) == HeartbeatResult(4, {"t": (0, 1, 2, 3)})


def test_an_unknown_member_cannot_leave(bench: ConsumerBench) -> None:
    assert bench.refused("a", -1) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    bench.join("a", "t")
    assert bench.refused("x", -1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.refused("x", -2, instance_id="i") == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Instance id i is unknown.",
    )


def test_a_static_member_that_leaves_temporarily_keeps_its_partitions(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    bench.join("b", "t")
    bench.settle("a", "b")
    bench.written()
    assert bench.beat("a", -2, instance_id="i") == HeartbeatResult(-2, None)
    assert names(bench) == ["CurrentMemberAssignment"]
    assert bench.beat("b", 3) == HeartbeatResult(3, None)
    assert bench.held() == {"a": {"t": (0, 1)}, "b": {"t": (2, 3)}}
    assert not bench.group.is_free(topic_id_of("t"), 0)
    assert bench.member("a").assigned[topic_id_of("t")] == {0: 0, 1: 0}, "no commit of its old self counts"


def test_a_static_member_that_does_not_return_is_removed(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    bench.beat("a", -2, instance_id="i")
    bench.advance(SESSION_MS - 1)
    assert "a" in bench.group.members
    bench.advance(1)
    assert bench.group.is_empty()


def test_a_static_member_may_leave_permanently(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i")
    assert bench.beat("a", -1, instance_id="i") == HeartbeatResult(-1, None)
    assert bench.group.is_empty()
    assert bench.group.static_members == {}


# --- sessions


def test_a_member_without_heartbeats_is_removed(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.advance(SESSION_MS - 1)
    bench.beat("a", 2)
    bench.advance(SESSION_MS - 1)
    assert "a" in bench.group.members, "every heartbeat starts the clock anew"
    bench.advance(1)
    assert bench.group.is_empty()
    assert bench.refused("a", 2).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_heartbeat_does_not_keep_a_member_alive(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.advance(SESSION_MS - 1)
    bench.refused("a", 9)
    bench.advance(1)
    assert bench.group.is_empty()


def test_a_group_may_override_the_session_timeout() -> None:
    bench = ConsumerBench({"group.consumer.session.timeout.ms": "50000"}, t=1)
    bench.join("a", "t")
    assert bench.timers.due_in(session_timer("g", "a")) == 50_000


def test_after_a_restart_every_member_gets_a_session(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.advance(SESSION_MS - 1)
    bench.restart()
    assert bench.timers.due_in(session_timer("g", "a")) == SESSION_MS


# --- revocation timeouts


def test_a_member_that_does_not_revoke_in_time_is_removed(bench: ConsumerBench) -> None:
    bench.join("a", "t", rebalance_timeout_ms=5_000)
    bench.join("b", "t")
    bench.beat("a", 2)
    assert bench.timers.due_in(revocation_timer("g", "a")) == 5_000
    bench.advance(4_999)
    bench.beat("a", 2, owned={"t": (0, 1, 2, 3)})
    assert bench.timers.due_in(revocation_timer("g", "a")) == 1, "asking again gives no more time"
    bench.advance(1)
    assert list(bench.group.members) == ["b"]
    assert bench.beat("b", 3) == HeartbeatResult(4, {"t": (0, 1, 2, 3)})


def test_the_revocation_timer_is_cancelled_after_the_revocation(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    bench.beat("a", 2, owned={"t": (0, 1)})
    assert not bench.timers.is_scheduled(revocation_timer("g", "a"))


def test_the_revocation_timer_starts_again_after_a_restart(bench: ConsumerBench) -> None:
    bench.join("a", "t", rebalance_timeout_ms=5_000)
    bench.join("b", "t")
    bench.beat("a", 2)
    bench.restart()
    assert bench.timers.due_in(revocation_timer("g", "a")) == 5_000
    assert not bench.timers.is_scheduled(revocation_timer("g", "b"))


def test_a_revocation_timer_of_an_earlier_epoch_has_no_effect(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    timer = bench.timers.pending[revocation_timer("g", "a")]
    bench.beat("a", 2, owned={"t": (0, 1)})
    assert timer.operation().records == []
    assert TIMEOUT_MS == 60_000
