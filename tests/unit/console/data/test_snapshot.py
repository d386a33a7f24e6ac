"""What a snapshot derives: racks, problems, counts."""

from __future__ import annotations

from dataclasses import replace

from ottla.admin.health import CRITICAL, NOTE, WARNING, Problem
from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.base.ids import TopicPartition
from ottla.console.data.snapshot import Broker, Snapshot, count


def partition(topic: str, index: int, leader: int, isr: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo(topic, index, leader, 0, (0, 1, 2), isr, start_offset=0, end_offset=10)


SNAPSHOT = Snapshot(
    brokers=(Broker(0, "a", "R2"), Broker(1, "b", "R1"), Broker(2, "c", "R2", state="killed")),
    topics=(
        TopicInfo("__x", "", True, (partition("__x", 0, 1, (0, 1, 2)),)),
        TopicInfo("a", "", False, (partition("a", 0, -1, ()), partition("a", 1, 0, (0,)))),
        TopicInfo("b", "", False, (partition("b", 0, 1, (0, 1)),)),
    ),
    rates={TopicPartition("a", 1): 4.0, TopicPartition("__x", 0): 9.0},
)


def test_brokers_are_grouped_by_rack() -> None:
    assert [(rack, [each.node_id for each in brokers]) for rack, brokers in SNAPSHOT.racks] == [
        ("R1", [1]),
        ("R2", [0, 2]),
    ]


def test_problems_are_ordered_by_severity() -> None:
    worst, mild = (
        Problem(CRITICAL, "no leader", "text", "hint"),
        Problem(NOTE, "leader not preferred", "text"),
    )
    killed = Problem(WARNING, "broker", "broker 2 is killed")
    assert replace(SNAPSHOT, health=(worst, mild)).problems == [worst, killed, mild]
    assert Snapshot(error="The cluster does not respond").problems[0].severity == CRITICAL
    assert Snapshot().problems == []


def test_counts_of_a_broker() -> None:
    assert SNAPSHOT.leads(1) == 2
    assert SNAPSHOT.follows(0, in_sync=True) == 2
    assert SNAPSHOT.follows(2, in_sync=False) == 3
    assert SNAPSHOT.broker_rate(0) == 4.0


def test_the_rate_of_the_cluster_leaves_internal_topics_out() -> None:
    assert SNAPSHOT.rate == 4.0
    assert [topic.name for topic in SNAPSHOT.user_topics] == ["a", "b"]


def test_counts_have_a_plural() -> None:
    assert [count(1, "topic"), count(1_200, "topic")] == ["1 topic", "1,200 topics"]
