"""A leader partition over a real log on a simulated disk, written step by step."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.metadata.image import PartitionImage
from ottla.records.batch import iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTxnMarker
from ottla.replication.cluster_view import ClusterView
from ottla.replication.partition import Partition
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.producers.producer_state import Verification
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor

NODE, NOW_MS, VERSION = 1, 1_700_000_000_000, 9
ALL, LEADER = -1, 1


class FixedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0


class Waiter:
    def __init__(self) -> None:
        self.errors: list[ErrorCode] = []
        self.moved = 0

    def append_done(self, error: ErrorCode) -> None:
        self.errors.append(error)

    def partition_moved(self, partition: Partition) -> None:
        self.moved += 1


class Fixture:
    def __init__(self, config: LogConfig | None = None) -> None:
        self.disk = SimDisk(random.Random(1))
        self.disk.makedirs("/d")
        self.executor = InlineExecutor(stepped=True)
        self.faults: list[StorageFault] = []
        self.deferred: list[Callable[[], None]] = []
        self.log: Log = open_log(
            self.disk,
            "/d/t-0",
            TopicPartition("t", 0),
            uuid.UUID(int=7),
            config or LogConfig(),
            last=LastKnown(clean=True),
            rng=random.Random(1),
            now_ms=NOW_MS,
        )
        self.group_commit = GroupCommit(
            self.executor,
            FixedClock(),
            defer=self.deferred.append,
            on_progress=lambda log: self.partition.progressed(),
            on_fault=self.faults.append,
        )
        self.partition = Partition(
            self.log,
            uuid.UUID(int=7),
            NODE,
            self.group_commit.schedule,
            self.faults.append,
            ClusterView(FixedClock()),
        )
        self.lead()

    def lead(
        self,
        *,
        leader: int = NODE,
        epoch: int = 0,
        isr: tuple[int, ...] = (NODE,),
        replicas: tuple[int, ...] = (NODE,),
    ) -> None:
        self.partition.become(
            PartitionImage(
                replicas=replicas,
                directories=(uuid.UUID(int=0),) * len(replicas),
                isr=isr,
                leader=leader,
                leader_epoch=epoch,
            )
        )

    def write(self) -> None:
        """End the turn of the loop, and let one job run."""
        self.end_turn()
        self.executor.step()

    def end_turn(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def produce(self, count: int = 1, acks: int = ALL, **batch: int) -> tuple[int, Waiter]:
        records = [NewRecord(key=b"k", value=b"v", timestamp=NOW_MS) for _ in range(count)]
        data = memoryview(bytearray(build_batch(records, **batch)))
        appended = self.partition.append(data, acks, NOW_MS, VERSION)
        waiter = Waiter()
        self.partition.wait_append(appended.last_offset + 1, acks, waiter)
        return appended.base_offset, waiter


@pytest.fixture
def setup() -> Fixture:
    return Fixture()


@pytest.mark.parametrize("acks", [ALL, LEADER])
def test_nothing_is_acknowledged_before_it_is_written_and_synced(setup: Fixture, acks: int) -> None:
    offset, waiter = setup.produce(2, acks)
    assert offset == 0
    assert waiter.errors == []
    assert setup.partition.high_watermark == 0
    assert setup.partition.read(0, 1000, committed=False).size == 0
    setup.write()
    assert waiter.errors == [ErrorCode.NONE]
    assert setup.partition.high_watermark == 2
    assert setup.log.flushed_offset == 2
    assert setup.partition.read(0, 1000, committed=False).size > 0


def test_appends_that_wait_together_are_acknowledged_together_and_in_order(setup: Fixture) -> None:
    _, first = setup.produce()
    setup.end_turn()
    waiters = [setup.produce()[1] for _ in range(5)]
    setup.write()
    assert first.errors == [ErrorCode.NONE]
    assert all(waiter.errors == [] for waiter in waiters)
    setup.write()
    assert all(waiter.errors == [ErrorCode.NONE] for waiter in waiters)
    assert setup.executor.waiting == 0


def test_a_duplicate_waits_only_for_its_original(setup: Fixture) -> None:
    setup.produce(producer_id=5, producer_epoch=0, base_sequence=0)
    setup.write()
    setup.produce(producer_id=5, producer_epoch=0, base_sequence=1)
    offset, waiter = setup.produce(producer_id=5, producer_epoch=0, base_sequence=0)
    assert offset == 0
    assert waiter.errors == [ErrorCode.NONE]


def test_readers_are_notified_when_the_high_watermark_moves(setup: Fixture) -> None:
    reader = Waiter()
    setup.partition.read_waiters[reader] = None
    setup.produce()
    assert reader.moved == 0
    setup.write()
    assert reader.moved == 1


def test_losing_leadership_fails_waiting_and_later_requests(setup: Fixture) -> None:
    _, waiter = setup.produce()
    reader = Waiter()
    setup.partition.read_waiters[reader] = None
    setup.lead(leader=2, epoch=1)
    assert waiter.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert reader.moved == 1
    with pytest.raises(ApiError, match="NOT_LEADER"):
        setup.produce()
    setup.write()
    assert waiter.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("acks", [ALL, LEADER])
def test_a_leader_that_stays_acknowledges_in_its_next_epoch(setup: Fixture, acks: int) -> None:
    """As at the end of a reassignment. An error would cause the client to send the batch again."""
    _, waiter = setup.produce(acks=acks)
    reader, coordinator = Waiter(), Waiter()
    setup.partition.read_waiters[reader] = None
    setup.partition.wait_committed(1, coordinator)
    setup.lead(epoch=1)
    assert waiter.errors == []
    assert reader.moved == 1
    assert coordinator.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    setup.write()
    assert waiter.errors == [ErrorCode.NONE]


def test_the_leader_epoch_of_the_client_is_checked(setup: Fixture) -> None:
    setup.lead(epoch=4)
    setup.partition.check_leader()
    setup.partition.check_leader(4)
    with pytest.raises(ApiError) as fenced:
        setup.partition.check_leader(3)
    assert fenced.value.code is ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(ApiError) as unknown:
        setup.partition.check_leader(5)
    assert unknown.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_leader_that_is_elected_again_begins_a_new_term(setup: Fixture) -> None:
    """Replicas were removed, for instance: what they fetched in the old epoch does not count any more."""
    setup.lead(epoch=4, isr=(NODE, 2), replicas=(NODE, 2))
    _, waiter = setup.produce(3)
    setup.write()
    setup.lead(epoch=5, isr=(NODE, 2), replicas=(NODE, 2))

    assert waiter.errors == []
    assert setup.partition.epoch_start_offset == 3
    assert setup.log.end_offset_for_epoch(4) == (4, 3)
    assert setup.log.end_offset_for_epoch(5) == (5, 3)


def test_min_insync_replicas_counts_only_as_far_as_there_are_replicas() -> None:
    alone = Fixture(LogConfig(min_insync_replicas=2))
    alone.produce()
    pair = Fixture(LogConfig(min_insync_replicas=2))
    pair.lead(replicas=(NODE, 2))
    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        pair.produce()
    pair.produce(acks=LEADER)


def test_settings_change_while_running(setup: Fixture) -> None:
    setup.partition.reconfigure(LogConfig(max_message_bytes=70))
    with pytest.raises(ApiError) as refused:
        setup.produce(5)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    setup.partition.reconfigure(LogConfig())
    setup.produce(5)


def test_a_reader_with_another_history_gets_the_diverging_epoch(setup: Fixture) -> None:
    setup.produce(3)
    setup.write()
    setup.lead(epoch=2)
    setup.produce(3)
    setup.write()
    assert setup.partition.read(5, 1000, committed=False, last_fetched_epoch=2).diverging is None
    assert setup.partition.read(5, 1000, committed=False, last_fetched_epoch=0).diverging == (0, 3)
    assert setup.partition.read(3, 1000, committed=False, last_fetched_epoch=1).diverging == (0, 3)
    with pytest.raises(ApiError) as newer:
        setup.partition.read(3, 1000, committed=False, last_fetched_epoch=3)
    assert newer.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_forgets_an_epoch_in_which_it_led_without_records(setup: Fixture) -> None:
    """Another leader continues an earlier epoch: its records do not end where the empty epoch began."""
    setup.lead(epoch=4)
    setup.produce()
    setup.write()
    setup.lead(epoch=5)
    setup.lead(leader=2, epoch=6)
    setup.log.append_raw(build_batch([NewRecord(None, b"v")], base_offset=1, leader_epoch=4), NOW_MS)
    assert setup.log.latest_epoch == 4
    setup.write()
    setup.lead(epoch=7)
    assert setup.log.end_offset_for_epoch(4) == (4, 2)
    assert setup.partition.read(2, 1000, committed=False, last_fetched_epoch=4).diverging is None


def test_delete_records_moves_the_start_and_refuses_what_is_not_committed(setup: Fixture) -> None:
    setup.produce(4)
    setup.write()
    setup.produce(2)
    assert setup.partition.delete_records(3).result() == 3
    for offset in (-1, 5):
        with pytest.raises(ApiError) as refused:
            setup.partition.delete_records(offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    setup.partition.reconfigure(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(ApiError) as policy:
        setup.partition.delete_records(3)
    assert policy.value.code is ErrorCode.POLICY_VIOLATION


def test_a_failed_log_returns_storage_error(setup: Fixture) -> None:
    _, waiter = setup.produce()
    setup.log.fail()
    setup.partition.failed()
    assert waiter.errors == [ErrorCode.KAFKA_STORAGE_ERROR]
    with pytest.raises(ApiError) as refused:
        setup.produce()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as unread:
        setup.partition.check_leader()
    assert unread.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def of_transaction(
    sequence: int, verification: Verification | None, setup: Fixture, version: int = VERSION
) -> int:
    data = build_batch(
        [NewRecord(b"k", b"v", timestamp=NOW_MS)],
        producer_id=9,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    view = memoryview(bytearray(data))
    return setup.partition.append(view, ALL, NOW_MS, version, verification).base_offset


def test_a_transaction_is_verified_once_and_ended_by_a_marker(setup: Fixture) -> None:
    with pytest.raises(ApiError, match="INVALID_TXN_STATE"):
        of_transaction(0, None, setup)
    verification = setup.partition.verify(9, 0, 0, NOW_MS)
    assert of_transaction(0, verification, setup) == 0
    assert setup.partition.verify(9, 0, 1, NOW_MS) is None
    assert of_transaction(1, None, setup) == 1
    setup.write()
    assert setup.log.last_stable_offset == 0
    reader = Waiter()
    setup.partition.read_waiters[reader] = None
    setup.partition.append_marker(EndTxnMarker(False, 3), 9, 0, NOW_MS)
    assert setup.log.last_stable_offset == 0
    setup.write()
    assert reader.moved == 1
    assert setup.log.last_stable_offset == 3
    assert setup.partition.aborted_transactions(0, 3) == [(9, 0)]


def test_markers_of_fenced_producers_and_coordinators_are_refused(setup: Fixture) -> None:
    setup.partition.append_marker(EndTxnMarker(True, 3), 9, 5, NOW_MS)
    with pytest.raises(ApiError, match="INVALID_PRODUCER_EPOCH"):
        setup.partition.append_marker(EndTxnMarker(True, 3), 9, 4, NOW_MS)
    with pytest.raises(ApiError, match="TRANSACTION_COORDINATOR_FENCED"):
        setup.partition.append_marker(EndTxnMarker(True, 2), 9, 5, NOW_MS)
    assert setup.log.log_end_offset == 1


def test_the_second_generation_begins_its_transactions_at_sequence_0(setup: Fixture) -> None:
    verification = setup.partition.verify(9, 0, 4, NOW_MS)
    with pytest.raises(ApiError, match="OUT_OF_ORDER"):
        of_transaction(4, verification, setup, version=12)
    assert of_transaction(4, verification, setup, version=11) == 0


def test_coordinators_write_like_acks_all(setup: Fixture) -> None:
    data = memoryview(bytearray(build_batch([NewRecord(b"k", b"v", timestamp=NOW_MS)])))
    assert setup.partition.append_own(data, NOW_MS).base_offset == 0
    assert list(setup.partition.batches()) == []
    setup.write()
    assert [header.base_offset for header, _ in setup.partition.batches()] == [0]
    setup.lead(leader=2, epoch=1)
    for refused in (
        lambda: setup.partition.append_own(data, NOW_MS),
        lambda: setup.partition.verify(1, 0, 0, NOW_MS),
    ):
        with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
            refused()


def test_coordinators_need_the_in_sync_replicas(setup: Fixture) -> None:
    setup.partition.reconfigure(LogConfig(min_insync_replicas=2))
    setup.lead(replicas=(NODE, 2), epoch=1)
    data = memoryview(bytearray(build_batch([NewRecord(b"k", b"v", timestamp=NOW_MS)])))
    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        setup.partition.append_own(data, NOW_MS)


def test_the_last_stable_offset_is_not_below_the_log_start(setup: Fixture) -> None:
    of_transaction(0, setup.partition.verify(9, 0, 0, NOW_MS), setup)
    setup.produce(3)
    setup.write()
    setup.partition.delete_records(2)
    assert setup.log.last_stable_offset == 2


def offsets_read(setup: Fixture, *, committed: bool) -> list[int]:
    found = setup.partition.read(0, 10_000, committed=committed).slice
    assert found is not None
    return [header.base_offset for _, header in iter_batches(found.read())]


def test_a_consumer_reads_up_to_the_high_watermark(setup: Fixture) -> None:
    """Records that are written here but not replicated yet are not read."""
    for _ in range(3):
        setup.produce()
        setup.write()
    setup.log.high_watermark = 1
    assert offsets_read(setup, committed=False) == [0]
    assert offsets_read(setup, committed=True) == [0]
    setup.log.high_watermark = 3
    assert offsets_read(setup, committed=False) == [0, 1, 2]


def test_a_reader_of_committed_records_stops_at_the_first_open_transaction(setup: Fixture) -> None:
    setup.produce()
    setup.write()
    of_transaction(0, setup.partition.verify(9, 0, 0, NOW_MS), setup)
    setup.write()
    setup.produce()
    setup.write()
    assert setup.log.high_watermark == 3
    assert offsets_read(setup, committed=False) == [0, 1, 2]
    assert offsets_read(setup, committed=True) == [0]


# Several batches of one producer in flight


def test_a_batch_behind_one_that_was_refused_by_a_small_isr_gets_the_same_error() -> None:
    """Otherwise it would be out of order, to which librdkafka responds by sending other records twice."""
    fixture = Fixture(LogConfig(min_insync_replicas=2))
    fixture.lead(isr=(NODE, 2), replicas=(NODE, 2, 3))
    fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=0)
    fixture.lead(isr=(NODE,), replicas=(NODE, 2, 3))
    assert refusal(fixture, 2) is ErrorCode.NOT_ENOUGH_REPLICAS

    fixture.lead(isr=(NODE, 2), replicas=(NODE, 2, 3))

    assert refusal(fixture, 4) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refusal(fixture, 6) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert [refusal(fixture, each) for each in (2, 4, 6)] == [None, None, None]


def test_a_committed_batch_that_is_sent_again_is_acknowledged_although_the_isr_is_small() -> None:
    """If it was refused, later batches could be appended first, until the log does not remember it any more."""
    fixture = Fixture(LogConfig(min_insync_replicas=2))
    fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=0)
    fixture.write()
    fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=2)
    fixture.lead(isr=(NODE,), replicas=(NODE, 2, 3))
    assert (fixture.log.high_watermark, fixture.log.log_end_offset) == (2, 4)

    base_offset, waiter = fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=0)
    assert (base_offset, waiter.errors) == (0, [ErrorCode.NONE])
    assert refusal(fixture, 2) is ErrorCode.NOT_ENOUGH_REPLICAS  # not committed
    assert refusal(fixture, 4) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_behind_one_that_was_sent_too_early_to_a_new_leader_gets_the_same_error() -> None:
    fixture = Fixture()
    fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=0)
    fixture.lead(leader=2, epoch=1, isr=(NODE, 2), replicas=(NODE, 2))
    assert refusal(fixture, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    fixture.lead(epoch=2, isr=(NODE, 2), replicas=(NODE, 2))

    assert refusal(fixture, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [refusal(fixture, each) for each in (2, 4)] == [None, None]


def refusal(fixture: Fixture, base_sequence: int) -> ErrorCode | None:
    """The error of a batch of two records of producer 5."""
    try:
        fixture.produce(count=2, producer_id=5, producer_epoch=0, base_sequence=base_sequence)
    except ApiError as error:
        return error.code
    return None


def test_a_log_is_a_copy_while_another_broker_leads(setup: Fixture) -> None:
    replicas = (NODE, NODE + 1)
    assert not setup.log.is_copy
    setup.lead(leader=NODE + 1, epoch=1, isr=replicas, replicas=replicas)
    assert setup.log.is_copy
    setup.lead(epoch=2, isr=replicas, replicas=replicas)
    assert not setup.log.is_copy
