"""The checks of requests that read a partition, and which replica serves a consumer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.replication.partition import Partition
from ottla.replication.readable_partition import is_rack_aware
from ottla.storage.log.log import Log
from tests.support.replica_fetches import NOW_MS, Broker, Follower


def partition_with(records: int = 2, *, leader: int = 1) -> tuple[Broker, Partition]:
    """A partition in leader epoch 5; this is broker 1."""
    broker = Broker()
    (partition,) = broker.partitions
    for _ in range(records):
        broker.append()
    broker.write()
    partition.become(broker.image(leader=leader, epoch=5, partition_epoch=1))
    return broker, partition


def code_of(call: Callable[[], object]) -> ErrorCode:
    try:
        call()
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_claimed_leader_epoch_must_be_that_of_the_partition(
    leader: int, epoch: int, code: ErrorCode
) -> None:
    _, partition = partition_with(leader=leader)
    assert code_of(lambda: partition.check_replica_here(epoch)) is code
    not_leader = ErrorCode.NONE if leader == 1 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(lambda: partition.check_leader(epoch)) is (code or not_leader)


def test_a_log_whose_segments_are_being_removed_serves_nothing() -> None:
    """A worker thread removes them, one after the other, and creates a new one."""
    _, partition = partition_with(leader=2)
    job = partition.log.take_restart(7, NOW_MS)
    partition.log.segments.remove_last()
    assert partition.read(0, 1000, committed=False, last_fetched_epoch=0).size == 0
    partition.log.perform(job)
    assert code_of(lambda: partition.read(0, 1000, committed=False)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_log_that_is_offline_serves_nothing() -> None:
    _, partition = partition_with()
    partition.log.fail()
    for check in (partition.check_replica_here, partition.check_leader):
        assert code_of(check) is ErrorCode.KAFKA_STORAGE_ERROR


def test_offsets_of_a_new_leader_are_available_when_it_has_committed_the_records_of_the_last_one() -> None:
    broker, partition = partition_with(2)
    assert code_of(partition.check_offsets_available) is ErrorCode.OFFSET_NOT_AVAILABLE
    for committed, code in ((1, ErrorCode.OFFSET_NOT_AVAILABLE), (2, ErrorCode.NONE)):
        for replica_id in (2, 3):
            Follower(broker, replica_id).fetch({0: committed}, epoch=5, wait_ms=0)
        assert partition.high_watermark == committed
        assert code_of(partition.check_offsets_available) is code


def test_offsets_of_a_follower_are_available() -> None:
    _, partition = partition_with(2)
    assert code_of(partition.check_offsets_available) is ErrorCode.OFFSET_NOT_AVAILABLE
    _, partition = partition_with(2, leader=2)
    assert code_of(partition.check_offsets_available) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("leader", "offset", "code"),
    [
        (1, 2, ErrorCode.NONE),
        (1, 3, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, 2, ErrorCode.NONE),
        (2, 3, ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
)
def test_a_follower_does_not_refuse_offsets_that_it_has_not_copied(
    leader: int, offset: int, code: ErrorCode
) -> None:
    broker, partition = partition_with(2, leader=leader)
    if leader == 1:
        for replica_id in (2, 3):
            Follower(broker, replica_id).fetch({0: 2}, epoch=5, wait_ms=0)
    assert code_of(lambda: partition.read(offset, 1000, committed=False)) is code
    if leader == 2:
        assert code_of(lambda: partition.read(offset, 1000, committed=False, last_fetched_epoch=0)) is code


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("read", lambda partition: partition.read(0, 1000, committed=False)),
        ("batches", lambda partition: list(partition.batches())),
        ("offset_for_timestamp", lambda partition: partition.offset_for_timestamp(0)),
        ("max_timestamp", lambda partition: partition.max_timestamp()),
        ("aborted_transactions", lambda partition: partition.aborted_transactions(0, 1)),
    ],
)
def test_a_disk_that_fails_during_a_read_takes_its_directory_offline(
    monkeypatch: pytest.MonkeyPatch, method: str, read: Callable[[Partition], object]
) -> None:
    _, partition = partition_with()
    fault = StorageFault("/d", OSError("disk"))

    def fail(*_: object, **__: object) -> None:
        raise fault

    faults: list[StorageFault] = []
    monkeypatch.setattr(Log, method, fail)
    partition._on_fault = faults.append
    assert code_of(lambda: read(partition)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert faults == [fault]


def test_a_read_returns_no_batch_that_is_too_large_unless_it_is_the_first() -> None:
    _, partition = partition_with(2, leader=2)
    partition.follow_high_watermark(2)
    for min_one, has_records in ((True, True), (False, False)):
        assert (partition.read(0, 1, committed=False, min_one=min_one).size > 0) is has_records
        assert (partition.read_for_replica(0, 1, min_one=min_one).size > 0) is has_records


# Consumers in racks (KIP-392)


@pytest.mark.parametrize(
    ("selector", "aware"),
    [
        (None, False),
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", True),
        ("org.example.Other", False),
    ],
)
def test_the_selector_that_sends_consumers_to_their_racks(selector: str | None, aware: bool) -> None:
    assert is_rack_aware(selector) is aware


def in_racks(broker: Broker, racks: dict[int, str]) -> None:
    brokers = broker.cluster.brokers
    broker.cluster.brokers = {
        one: msgspec.structs.replace(brokers[one], rack=rack) for one, rack in racks.items()
    }


def test_a_consumer_in_the_rack_of_the_leader_reads_from_the_leader() -> None:
    broker, partition = partition_with(1)
    Follower(broker, 2).fetch({0: 1}, epoch=5, wait_ms=0)
    in_racks(broker, {1: "a", 2: "a", 3: "b"})
    assert partition.preferred_read_replica("a", 0) == -1
    in_racks(broker, {1: "b", 2: "a", 3: "b"})
    assert partition.preferred_read_replica("a", 0) == 2


def test_only_a_leader_names_a_replica_that_is_active() -> None:
    broker, partition = partition_with(1)
    Follower(broker, 2).fetch({0: 1}, epoch=5, wait_ms=0)
    assert partition.preferred_read_replica("r2", 1) == 2
    known = broker.cluster.brokers
    fenced = msgspec.structs.replace(known[2], fenced=True)
    broker.cluster.brokers = {**known, 2: fenced}
    assert partition.preferred_read_replica("r2", 1) == -1
    broker.cluster.brokers = known
    partition.become(broker.image(leader=2, epoch=6, partition_epoch=2))
    assert partition.preferred_read_replica("r2", 1) == -1
