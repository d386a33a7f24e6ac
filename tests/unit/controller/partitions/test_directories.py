"""AssignReplicasToDirs: the directory of each replica."""

from __future__ import annotations

import uuid

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.partitions.directories import decide_assign
from ottla.metadata.image import DIRECTORY_UNASSIGNED, NO_LEADER
from ottla.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tests.support.controller import TOPIC_ID, ControllerBench, cluster, directory_of
from tests.support.metadata import broker_record, features, topic_records

FIRST, SECOND = directory_of(1), directory_of(1, 1)


def two_directories() -> ControllerBench:
    """Broker 1 has two directories; the partitions are in the first."""
    return ControllerBench(
        [*features(), broker_record(1, epoch=1, dirs=2), *topic_records("t", [[1], [1], [2]])]
    )


def assign(
    bench: ControllerBench,
    directory_id: uuid.UUID,
    *indexes: int,
    topic_id: uuid.UUID = TOPIC_ID,
    broker_id: int = 1,
    epoch: int = 1,
) -> list[int]:
    """Report a directory; the error code of each partition."""
    partitions = [PartitionData(partition_index=index) for index in indexes]
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        directories=[
            DirectoryData(id=directory_id, topics=[TopicData(topic_id=topic_id, partitions=partitions)])
        ],
    )
    response = bench.apply(decide_assign(bench.view, request))
    (directory,) = response.directories
    return [each.error_code for each in directory.topics[0].partitions]


def test_the_directory_of_a_replica_is_recorded_once() -> None:
    bench = two_directories()
    codes = assign(bench, SECOND, 0, 2, 9)
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(bench, SECOND, 0, topic_id=uuid.UUID(int=3)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    partition = bench.partition()
    assert (partition.directory_of(1), partition.leader, partition.leader_epoch) == (SECOND, 1, 0)
    offset = bench.image.offset
    assert assign(bench, SECOND, 0) == [0]
    assert bench.image.offset == offset


def test_only_under_the_registered_epoch() -> None:
    with pytest.raises(ApiError) as refused:
        assign(two_directories(), SECOND, 0, epoch=7)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_replica_that_lost_its_directory_starts_again_outside_the_isr() -> None:
    bench = cluster(min_insync_replicas="3")
    bench.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=[SECOND]))
    assert assign(bench, SECOND, 0) == [0]
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2, 3), ())
    assert partition.directory_of(1) == SECOND


def test_a_replica_outside_the_isr_reports_its_directory() -> None:
    """Its directory has failed and it is copied to another one, with which it can join the ISR."""
    bench = cluster()
    assert bench.alter_partition([1, 3]).error_code == 0
    bench.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, log_dirs=[SECOND]))
    assert bench.alter_partition([1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert assign(bench, SECOND, 0, broker_id=2, epoch=2) == [0]
    assert bench.partition().directory_of(2) == SECOND
    assert bench.alter_partition([1, 2, 3]).error_code == 0


def test_a_replica_in_a_directory_that_is_not_registered_does_not_lead() -> None:
    bench = two_directories()
    assert assign(bench, uuid.UUID(int=5555), 0) == [0]
    assert bench.partition().leader == NO_LEADER


def test_a_replica_that_reports_its_first_directory_stays_in_sync() -> None:
    bench = two_directories()
    bench.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=[DIRECTORY_UNASSIGNED]))
    assert assign(bench, SECOND, 0) == [0]
    partition = bench.partition()
    assert (partition.directory_of(1), partition.leader, partition.isr) == (SECOND, 1, (1,))


def test_a_replica_that_did_not_lose_its_directory_stays_eligible() -> None:
    bench = cluster(min_insync_replicas="3")
    assert assign(bench, uuid.UUID(int=5555), 0) == [0]
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2, 3), (1,))
