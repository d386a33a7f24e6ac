"""Computation of target assignments."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.records import ConsumerGroupTargetAssignmentMemberKey
from tests.support.consumer_bench import ConsumerBench, HeartbeatResult


@pytest.fixture
def slow() -> ConsumerBench:
    return ConsumerBench({"group.consumer.assignment.interval.ms": "1000"}, t=4)


def test_targets_are_not_computed_more_often_than_the_interval_allows(slow: ConsumerBench) -> None:
    slow.join("a", "t")
    assert slow.join("b", "t") == HeartbeatResult(2, {}), "it follows the target there is"
    slow.advance(999)
    assert slow.beat("b", 2) == HeartbeatResult(2, None)
    assert slow.group.state_name == "Assigning"
    slow.advance(1)
    assert slow.beat("b", 2) == HeartbeatResult(3, None)
    assert (slow.group.epoch, slow.group.target_epoch) == (3, 3)


def test_many_changes_within_the_interval_cause_one_target(slow: ConsumerBench) -> None:
    for name in "abcd":
        slow.join(name, "t")
    assert (slow.group.epoch, slow.group.target_epoch) == (5, 2)
    slow.advance(1000)
    slow.beat("a", 2)
    assert slow.group.target_epoch == 5
    slow.settle("a", "b", "c", "d")
    assert sorted(parts["t"] for parts in slow.held().values()) == [(0,), (1,), (2,), (3,)]


def test_the_interval_survives_a_restart(slow: ConsumerBench) -> None:
    slow.join("a", "t")
    slow.restart()
    assert slow.join("b", "t").epoch == 2


def test_only_changed_targets_are_appended(bench: ConsumerBench) -> None:
    for name in ("a", "b"):
        bench.join(name, "t")
    bench.settle("a", "b")
    bench.join("c", "u")
    bench.written()
    bench.beat("c", 4, subscribed_topic_names=["u", "gone"])
    written = [
        record.key.member_id
        for record in bench.written()
        if isinstance(record.key, ConsumerGroupTargetAssignmentMemberKey)
    ]
    assert written == []


def test_the_assignor_with_the_most_votes_is_used(bench: ConsumerBench) -> None:
    bench.join("a", "t", server_assignor="uniform")
    assert bench.machine.describe_consumer("g").assignor_name == "uniform"
    bench.join("b", "t", server_assignor="range")
    assert bench.machine.describe_consumer("g").assignor_name == "uniform", "as many for each: the default"
    bench.join("c", "t", server_assignor="range")
    assert bench.machine.describe_consumer("g").assignor_name == "range"
    bench.beat("b", -1)
    bench.beat("c", -1)
    assert bench.machine.describe_consumer("g").assignor_name == "uniform"


def test_a_preference_counts_from_its_first_heartbeat() -> None:
    bench = ConsumerBench(t=3, u=3)
    bench.join("a", "t", "u", server_assignor="range")
    bench.join("b", "t", "u")
    bench.settle("a", "b")
    assert bench.held() == {"a": {"t": (0, 1), "u": (0, 1)}, "b": {"t": (2,), "u": (2,)}}


def test_without_a_preference_the_first_assignor_is_used() -> None:
    bench = ConsumerBench({"group.consumer.assignors": "range,uniform"}, t=3, u=3)
    bench.join("a", "t", "u")
    bench.join("b", "t", "u")
    bench.settle("a", "b")
    assert sorted(sum(map(len, parts.values())) for parts in bench.held().values()) == [2, 4]


def test_a_static_member_that_returns_inherits_its_target() -> None:
    bench = ConsumerBench(t=4)
    bench.join("a", "t", instance_id="i", server_assignor="uniform")
    bench.join("b", "t")
    bench.settle("a", "b")
    bench.beat("a", -2, instance_id="i")
    assert bench.join("z", "t", "gone", instance_id="i").parts == {"t": (0, 1)}
