"""Checks of a consumer group for offset requests and deletion, and its invariants."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.coordinator.group import records as rec
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from tests.support.consumer_bench import ConsumerBench
from tests.support.metadata import topic_id_of

T = topic_id_of("t")


def commit(
    bench: ConsumerBench,
    member: str,
    epoch: int,
    partition: int = 0,
    *,
    transactional: bool = False,
    version: int = 9,
    instance: str | None = None,
) -> ErrorCode:
    try:
        check = bench.group.validate_offset_commit(
            member, instance, epoch, transactional=transactional, api_version=version
        )
        if check is not None:
            check(T, partition)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.fixture
def two(bench: ConsumerBench) -> ConsumerBench:
    """a joined at epoch 2 and has 0 and 1; b has 2 and 3 since epoch 3."""
    bench.join("a", "t")
    bench.join("b", "t")
    bench.settle("a", "b")
    return bench


# --- commits


def test_a_member_commits_at_its_epoch(two: ConsumerBench) -> None:
    assert commit(two, "a", 3) is ErrorCode.NONE
    assert commit(two, "a", 3, partition=3) is ErrorCode.NONE, (
        "partitions are not checked at the current epoch"
    )
    assert commit(two, "x", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(two, "a", 4) is ErrorCode.STALE_MEMBER_EPOCH


def test_an_older_epoch_commits_partitions_that_it_still_has(two: ConsumerBench) -> None:
    assert commit(two, "a", 2, partition=0) is ErrorCode.NONE
    assert commit(two, "a", 2, partition=2) is ErrorCode.STALE_MEMBER_EPOCH, "given up"
    assert commit(two, "a", 1, partition=0) is ErrorCode.STALE_MEMBER_EPOCH, "it did not have it then"
    assert commit(two, "b", 2, partition=2) is ErrorCode.STALE_MEMBER_EPOCH


def test_partitions_being_revoked_may_be_committed(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.add_partitions("t", 5)
    bench.beat("a", 2)
    bench.join("b", "t")
    bench.beat("a", 3)
    assert bench.named(bench.member("a").revoking) == {"t": (3, 4)}
    assert commit(bench, "a", 2, partition=3) is ErrorCode.NONE
    assert commit(bench, "a", 2, partition=4) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_of_the_consumer_protocol_must_commit_with_version_9(
    two: ConsumerBench,
) -> None:
    assert commit(two, "a", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(two, "a", 3, version=3, transactional=True) is ErrorCode.NONE


def test_administrators_commit_to_groups_without_members(two: ConsumerBench) -> None:
    assert commit(two, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    two.beat("a", -1)
    two.beat("b", -1)
    assert commit(two, "", -1) is ErrorCode.NONE
    assert commit(two, "a", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_without_a_member_commits_always(two: ConsumerBench) -> None:
    assert commit(two, "", -1, transactional=True) is ErrorCode.NONE
    assert commit(two, "", -1, transactional=True, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(two, "", 2, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_of_the_classic_protocol_gets_illegal_generation(bench: ConsumerBench) -> None:
    bench.join("n", "t")
    bench.classic_join("c", "t")
    generation = bench.member("c").epoch
    assert commit(bench, "c", generation, version=2) is ErrorCode.NONE
    assert commit(bench, "c", generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, "c", generation - 1) is ErrorCode.ILLEGAL_GENERATION


# --- fetching and deleting


def test_offset_fetch_needs_the_current_epoch_or_none(two: ConsumerBench) -> None:
    two.group.validate_offset_fetch(None, -1)
    two.group.validate_offset_fetch("a", 3)
    for member, epoch, code in (
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as caught:
            two.group.validate_offset_fetch(member, epoch)
        assert caught.value.code is code


def test_a_group_without_members_can_be_deleted(two: ConsumerBench) -> None:
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        two.group.validate_delete()
    two.beat("a", -1)
    two.beat("b", -1)
    two.written()
    two.write(lambda machine: machine.delete_group("g"))
    assert [type(record.key) for record in two.written()] == [
        rec.ConsumerGroupTargetAssignmentMetadataKey,
        rec.ConsumerGroupPartitionMetadataKey,
        rec.ConsumerGroupMetadataKey,
    ]
    assert "g" not in two.machine.context.groups


def test_the_subscribed_topics_of_a_group(two: ConsumerBench) -> None:
    assert two.group.is_subscribed_to("t")
    assert not two.group.is_subscribed_to("u")
    assert two.group.retention_start(5) == 5


# --- invariants


def test_a_partition_cannot_be_assigned_to_two_members() -> None:
    group = ConsumerGroup("g")
    part = rec.TopicPartitions(topic_id=T, partitions=[0])
    assignment = rec.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=5, assigned_partitions=[part])
    group.replay_current_assignment("a", assignment)
    with pytest.raises(InvariantViolation, match="is assigned at epoch 5"):
        group.replay_current_assignment("b", assignment)


def test_the_subscription_of_a_member_is_deleted_after_its_assignments(two: ConsumerBench) -> None:
    with pytest.raises(InvariantViolation, match="while it has partitions"):
        two.group.replay_subscription("a", None)
    two.group.replay_current_assignment("a", None)
    with pytest.raises(InvariantViolation, match="while it has a target"):
        two.group.replay_subscription("a", None)
    two.group.replay_target("a", None)
    two.group.replay_subscription("a", None)
    assert list(two.group.members) == ["b"]
    assert two.group.is_free(T, 0)


def test_records_without_epochs_count_from_the_members_epoch() -> None:
    group = ConsumerGroup("g")
    part = rec.TopicPartitions(topic_id=T, partitions=[0, 1])
    group.replay_current_assignment(
        "a", rec.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=7, assigned_partitions=[part])
    )
    assert group.members["a"].assigned == {T: {0: 7, 1: 7}}
