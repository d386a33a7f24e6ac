"""The table of groups: what the log and the metadata do to it."""

from __future__ import annotations

import pytest

from ottla.base.errors import InvariantViolation
from ottla.coordinator.group import records as rec
from tests.support.consumer_bench import ConsumerBench, Told


def test_tombstones_of_groups_that_are_not_there_mean_nothing(bench: ConsumerBench) -> None:
    bench.machine.consumer.replay(rec.ConsumerGroupMetadataKey(group_id="x"), None)
    assert "x" not in bench.machine.context.groups


def test_any_record_makes_its_group(bench: ConsumerBench) -> None:
    key = rec.ConsumerGroupTargetAssignmentMetadataKey(group_id="x")
    bench.machine.consumer.replay(key, rec.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=9))
    assert bench.machine.context.groups["x"].kind == "consumer"


def test_a_group_ends_after_all_that_belongs_to_it(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    with pytest.raises(InvariantViolation, match="while it has members"):
        bench.machine.consumer.replay(rec.ConsumerGroupMetadataKey(group_id="g"), None)


def test_a_log_that_tells_of_two_kinds_at_once_is_broken(bench: ConsumerBench) -> None:
    bench.classic_group({"t": (0,)}, "t")
    key = rec.ConsumerGroupMetadataKey(group_id="g")
    with pytest.raises(InvariantViolation, match="classic group with members"):
        bench.machine.consumer.replay(key, rec.ConsumerGroupMetadataValue(epoch=1))


def test_a_group_of_offsets_alone_becomes_a_consumer_group(bench: ConsumerBench) -> None:
    bench.commit("g", 5)
    assert bench.join("a", "t") == Told(2, {"t": (0, 1, 2, 3)})


def test_a_record_of_older_coordinators_is_remembered(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    key = rec.ConsumerGroupPartitionMetadataKey(group_id="g")
    bench.machine.consumer.replay(key, rec.ConsumerGroupPartitionMetadataValue())
    assert bench.group.has_partition_metadata
    bench.machine.consumer.replay(key, None)
    assert not bench.group.has_partition_metadata


def test_a_classic_member_may_found_a_classic_group_where_an_empty_consumer_group_was(
    bench: ConsumerBench,
) -> None:
    bench.join("a", "t")
    bench.beat("a", -1)
    bench.classic_group({"t": (0,)}, "t")
    assert bench.machine.context.groups["g"].kind == "classic"
    bench.restart()
    assert bench.machine.context.groups["g"].kind == "classic"
