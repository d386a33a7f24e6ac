"""Replay and metadata changes of the consumer groups of a shard."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.coordinator.group import records as rec
from tests.support.consumer_bench import ConsumerBench, HeartbeatResult
from tests.support.group_bench import CLIENT


def test_tombstones_of_unknown_groups_have_no_effect(bench: ConsumerBench) -> None:
    bench.machine.consumer.replay(rec.ConsumerGroupMetadataKey(group_id="x"), None)
    assert "x" not in bench.machine.context.groups


def test_every_record_creates_its_group(bench: ConsumerBench) -> None:
    key = rec.ConsumerGroupTargetAssignmentMetadataKey(group_id="x")
    bench.machine.consumer.replay(key, rec.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=9))
    assert bench.machine.context.groups["x"].kind == "consumer"


def test_a_group_is_deleted_after_its_members_and_targets(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    with pytest.raises(InvariantViolation, match="while it has members"):
        bench.machine.consumer.replay(rec.ConsumerGroupMetadataKey(group_id="g"), None)


def test_a_log_with_two_types_of_one_group_violates_an_invariant(bench: ConsumerBench) -> None:
    bench.classic_group({"t": (0,)}, "t")
    key = rec.ConsumerGroupMetadataKey(group_id="g")
    with pytest.raises(InvariantViolation, match="classic group with members"):
        bench.machine.consumer.replay(key, rec.ConsumerGroupMetadataValue(epoch=1))


def test_a_group_of_offsets_alone_becomes_a_consumer_group(bench: ConsumerBench) -> None:
    bench.commit("g", 5)
    assert bench.join("a", "t") == HeartbeatResult(2, {"t": (0, 1, 2, 3)})


def test_a_partition_metadata_record_is_noticed(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    key = rec.ConsumerGroupPartitionMetadataKey(group_id="g")
    bench.machine.consumer.replay(key, rec.ConsumerGroupPartitionMetadataValue())
    assert bench.group.has_partition_metadata
    bench.machine.consumer.replay(key, None)
    assert not bench.group.has_partition_metadata


def test_an_empty_consumer_group_stays_if_the_log_refuses_its_replacement(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.beat("a", -1)
    group = bench.group
    bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    request = bench.classic_request("", "t")
    assert not bench.write(lambda machine: machine.join(request, CLIENT, 9)).done
    assert bench.group is group


def test_a_classic_member_replaces_an_empty_consumer_group(
    bench: ConsumerBench,
) -> None:
    bench.join("a", "t")
    bench.beat("a", -1)
    bench.classic_group({"t": (0,)}, "t")
    assert bench.machine.context.groups["g"].kind == "classic"
    bench.restart()
    assert bench.machine.context.groups["g"].kind == "classic"
