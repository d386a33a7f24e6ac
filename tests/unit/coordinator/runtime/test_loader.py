"""Loading of shards from their logs."""

from __future__ import annotations

import pytest
import structlog

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime.codec import encode_key, encode_value
from ottla.coordinator.runtime.loader import RETRY_MS, SLICE_RECORDS
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import ControlType, EndTxnMarker, build_control_batch, build_end_txn_batch
from tests.support.shards import Bench, MemoryLog, say, word


def stored(log: MemoryLog, batch: bytes, partition: int = 0) -> None:
    log.append(partition, 0, memoryview(bytearray(batch)), 0)
    log.commit(partition)


def plain(
    *texts: str, codec: Codec = Codec.NONE, producer_id: int = -1, transactional: bool = False
) -> bytes:
    records = [NewRecord(encode_key(word(text).key), encode_value(word(text)), timestamp=9) for text in texts]
    return build_batch(
        records, codec=codec, producer_id=producer_id, producer_epoch=0, transactional=transactional
    )


def code_of(bench: Bench, partition: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        bench.runtime.read(partition, lambda machine: machine.counts).result()
    return caught.value.code


def test_loading_is_spread_over_turns() -> None:
    log = MemoryLog()
    log.bytes_max = 1 << 20
    stored(log, plain(*(f"w{each}" for each in range(SLICE_RECORDS * 2))))
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    turns = 0
    while not bench.runtime.is_active(0):
        assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.scheduler.turn()
        turns += 1
    assert turns == 3
    assert len(bench.machine.counts) == SLICE_RECORDS * 2


def test_no_client_waits_for_a_coordinator_that_may_have_been_replaced() -> None:
    """A member that hears of loading keeps its partitions, which the next coordinator may have given to another."""
    bench = Bench()
    bench.runtime.elect(0, 0)
    assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.lease.held = False
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    bench.lease.held = True
    assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_many_empty_partitions_are_loaded_in_few_turns() -> None:
    bench = Bench()
    for partition in range(50):
        bench.runtime.elect(partition, 0)
    bench.scheduler.turn()
    bench.scheduler.turn()
    assert all(bench.runtime.is_active(partition) for partition in range(50))


def test_loading_waits_for_uncommitted_records() -> None:
    log = MemoryLog()
    stored(log, plain("a"))
    log.append(0, 0, memoryview(bytearray(plain("b"))), 0)
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.runtime.elect(1, 0)
    bench.scheduler.run()
    assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.runtime.is_active(1)
    log.commit()
    bench.scheduler.run()
    assert bench.machines[0].counts == {"a": 1, "b": 1}


def test_markers_and_transactional_records_are_replayed() -> None:
    log = MemoryLog()
    stored(log, plain("a", producer_id=7, transactional=True))
    stored(log, plain("b", producer_id=8, transactional=True))
    stored(log, plain("c", producer_id=9, transactional=True))
    for producer_id, committed in ((8, True), (7, False)):
        marker = EndTxnMarker(committed, 0)
        stored(log, build_end_txn_batch(marker, timestamp=1, producer_id=producer_id, producer_epoch=0))
    stored(log, build_control_batch(ControlType.LEADER_CHANGE, b"", timestamp=1))
    machine = Bench(log).serve()
    assert machine.counts == {"b": 1}
    assert machine.pending == {9: {"c": 1}}
    assert [(each.offset, each.timestamp_ms, each.producer_id) for each in machine.stamps] == [
        (0, 9, 7),
        (1, 9, 8),
        (2, 9, 9),
    ]


def test_compressed_batches_are_replayed_and_unknown_types_skipped() -> None:
    log = MemoryLog()
    stored(log, plain("a", "b", codec=Codec.GZIP))
    stored(log, build_batch([NewRecord(b"\0\x63future", b"\0\0", timestamp=1)]))
    assert Bench(log).serve().counts == {"a": 1, "b": 1}


def test_a_damaged_record_fails_its_shard_and_no_other() -> None:
    log = MemoryLog()
    stored(log, build_batch([NewRecord(b"\0\x07\0\x01a", b"\0\0", timestamp=1)]))
    stored(log, plain("b"), partition=1)
    bench = Bench(log)
    with structlog.testing.capture_logs() as logs:
        for partition in (0, 1):
            bench.runtime.elect(partition, 0)
        bench.scheduler.run()
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    assert bench.runtime.is_active(1)
    assert [(each["log_level"], each["partition"]) for each in logs] == [("error", 0)]
    assert bench.reported == []


def test_a_bug_while_loading_is_reported() -> None:
    log = MemoryLog()
    stored(log, plain("poison"))
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.scheduler.run()
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    assert [str(each) for each in bench.reported] == ["poison"]


def test_a_failed_shard_may_be_elected_again() -> None:
    log = MemoryLog()
    stored(log, build_batch([NewRecord(b"\0\x07\0\x01a", b"\0\0", timestamp=1)]))
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.scheduler.run()
    log.stored[0].clear()
    log.committed[0] = 0
    bench.runtime.elect(0, 1)
    bench.scheduler.run()
    assert bench.runtime.is_active(0)


def test_a_shard_that_resigns_while_loading_is_not_activated() -> None:
    log = MemoryLog()
    log.bytes_max = 1 << 20
    stored(log, plain(*(f"w{each}" for each in range(SLICE_RECORDS * 2))))
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.scheduler.turn()
    bench.runtime.resign(0)
    bench.scheduler.run()
    assert bench.machine.events == []
    bench.runtime.elect(0, 1)
    bench.scheduler.run()
    assert len(bench.machine.counts) == SLICE_RECORDS * 2


def test_a_log_error_while_waiting_for_the_commit_fails_the_shard() -> None:
    log = MemoryLog()
    log.append(0, 0, memoryview(bytearray(plain("b"))), 0)
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.scheduler.run()
    log.break_down(0, ErrorCode.KAFKA_STORAGE_ERROR)
    bench.scheduler.run()
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR


def test_new_records_are_appended_after_the_loaded_ones() -> None:
    log = MemoryLog()
    stored(log, plain("a", "b"))
    bench = Bench(log)
    machine = bench.serve()
    bench.runtime.write(0, say("c"))
    assert machine.stamps[-1].offset == 2


class NotLedYet(MemoryLog):
    """A log that this broker leads later than its election is known."""

    led = False

    def end_offset(self, partition: int, leader_epoch: int) -> int:
        if not self.led:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return super().end_offset(partition, leader_epoch)


def test_a_log_that_is_not_led_yet_is_loaded_a_little_later() -> None:
    log = NotLedYet()
    stored(log, plain("a"))
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    bench.scheduler.advance(RETRY_MS - 1)
    assert code_of(bench) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    log.led = True
    bench.scheduler.run()
    assert not bench.runtime.is_active(0)
    bench.scheduler.advance(1)
    bench.scheduler.run()
    assert bench.machine.counts == {"a": 1}


def test_records_of_a_producer_without_a_transaction_are_not_pending() -> None:
    log = MemoryLog()
    stored(log, plain("a", producer_id=7))
    machine = Bench(log).serve()
    assert (machine.counts, machine.pending) == ({"a": 1}, {})


def test_a_log_that_is_led_in_another_epoch_ends_the_load() -> None:
    log = MemoryLog()
    log.epochs[0] = 1
    bench = Bench(log)
    bench.runtime.elect(0, 0)
    with structlog.testing.capture_logs() as logged:
        bench.scheduler.run()
    assert code_of(bench) is ErrorCode.NOT_COORDINATOR
    assert (logged, bench.reported) == ([], [])
