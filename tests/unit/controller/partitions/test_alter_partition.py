"""AlterPartition: which proposed ISRs are accepted, in which order they are checked, and what follows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from ottla.wire.messages.alter_partition import AlterPartitionRequest, PartitionData, TopicData
from tests.support.controller import TOPIC_ID, cluster


def test_isr_shrinks_and_grows() -> None:
    bench = cluster()
    response = bench.alter_partition([1, 3])
    partition = bench.partition()
    assert (response.error_code, response.isr) == (0, [1, 3])
    assert (response.leader_id, response.leader_epoch, response.partition_epoch) == (1, 0, 1)
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 3), 0, 1)
    assert bench.alter_partition([1, 3, 2]).isr == [1, 3, 2]
    offset = bench.image.offset
    assert bench.alter_partition([1, 3, 2]).partition_epoch == 2
    assert bench.image.offset == offset


def test_members_that_leave_below_the_minimum_become_eligible() -> None:
    bench = cluster(min_insync_replicas="2")
    bench.alter_partition([1])
    assert set(bench.partition().eligible_leader_replicas) == {2, 3}
    bench.alter_partition([1, 2])
    assert bench.partition().eligible_leader_replicas == ()


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1], {"leader_epoch": 3}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": 0, "partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1], {"leader_epoch": 0, "broker_id": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1], {"broker_id": 2, "partition_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ([1, 9], {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ([(1, 1), (9, 9)], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": -1}, ErrorCode.INVALID_REQUEST),
        ([1, (2, 1)], {}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refused_changes(isr: list[Any], changes: dict[str, Any], code: ErrorCode) -> None:
    bench = cluster()
    bench.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1))  # leader epoch 1
    before = bench.partition()
    assert bench.alter_partition([each for each in isr if each != 9], **changes).error_code == code
    assert bench.partition() == before


def test_brokers_that_are_not_active_are_not_added() -> None:
    bench = cluster(assignments=[[1, 2, 3]])
    bench.fence(3)
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.register(3)
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    bench.heartbeat(3)
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.NONE


def test_replica_whose_directory_failed_is_not_added() -> None:
    """The leader had its last fetch before the directory failed; the broker is active."""
    bench = cluster()
    bench.replay(
        BrokerRegistrationChangeRecord(
            broker_id=2, broker_epoch=bench.image.brokers[2].epoch, log_dirs=[uuid.UUID(int=99)]
        )
    )
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.NONE  # it has not left yet
    assert bench.alter_partition([1, 3]).error_code == ErrorCode.NONE
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_broker_that_restarted_since_it_caught_up_is_not_added() -> None:
    bench = cluster()
    old = bench.image.brokers[2].epoch
    bench.restart(2, clean=False)
    assert bench.alter_partition([1, (2, old), 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert bench.alter_partition([1, (2, -1), 3]).error_code == ErrorCode.NONE


def test_only_the_registered_process_of_the_leader_may_change_the_isr() -> None:
    bench = cluster()
    with pytest.raises(ApiError) as refused:
        bench.alter_partition([1], broker_epoch=0)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_results_are_those_of_the_partitions_that_were_requested() -> None:
    bench = cluster(4, [[1, 2, 3], [1, 2, 3]])
    assert bench.alter_partition([1, 3], index=1).partition_index == 1
    assert (bench.partition(index=0).isr, bench.partition(index=1).isr) == ((1, 2, 3), (1, 3))
    assert bench.alter_partition([2, 3], index=1).partition_index == 1
    bench.reassign([2, 3, 4], index=1)
    elected = bench.alter_partition([1, 2, 3, 4], index=1)
    assert (elected.partition_index, elected.error_code) == (1, ErrorCode.NEW_LEADER_ELECTED)


def test_unknown_partitions_and_old_versions() -> None:
    bench = cluster()
    old = PartitionData(partition_index=0, new_isr=[1, 2])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=1,
        topics=[
            TopicData(topic_id=uuid.UUID(int=9), partitions=[PartitionData(partition_index=3)]),
            TopicData(topic_id=TOPIC_ID, partitions=[PartitionData(partition_index=8), old]),
        ],
    )
    response = bench.apply(decide_alter_partition(bench.view, request, 2))
    results = [
        (topic.topic_id, each.partition_index, each.error_code)
        for topic in response.topics
        for each in topic.partitions
    ]
    assert results == [
        (uuid.UUID(int=9), 3, ErrorCode.UNKNOWN_TOPIC_ID),
        (TOPIC_ID, 8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_ID, 0, ErrorCode.NONE),
    ]
    assert bench.partition().isr == (1, 2)


def test_leader_reports_its_recovery() -> None:
    bench = cluster(assignments=[[1, 2]], configs={"unclean.leader.election.enable": "true"})
    bench.fence(1)
    bench.fence(2)
    bench.heartbeat(1)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (1, 1)
    assert bench.alter_partition([1], leader_recovery_state=1).error_code == 0
    assert bench.partition().leader_recovery_state == 1
    assert bench.alter_partition([1], leader_recovery_state=0).leader_recovery_state == 0
    assert bench.partition().leader_recovery_state == 0


def test_change_that_completes_a_reassignment() -> None:
    bench = cluster(4)
    assert bench.reassign([1, 2, 4]) == 0
    response = bench.alter_partition([1, 2, 3, 4])
    partition = bench.partition()
    assert (response.error_code, response.isr) == (0, [1, 2, 4])
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2, 4), (1, 2, 4), 1)
    assert partition.leader_epoch == 1, "removed replicas are fenced by a new leader epoch"


def test_change_that_moves_the_leader_reports_it() -> None:
    bench = cluster(4)
    assert bench.reassign([2, 3, 4]) == 0
    assert bench.alter_partition([1, 2, 3, 4]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (bench.partition().leader, bench.partition().replicas) == (2, (2, 3, 4))
