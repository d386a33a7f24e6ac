"""Timeouts of transactions and expiration of transactional ids."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.expiration import ABORT_TIMED_OUT, PARTITIONS_AT_ONCE, RECORDS_AT_ONCE
from ottla.coordinator.txn.transaction import Producer
from tests.support.txn_coordinator import T0, T1, TxnBench

LOOK_MS = 10_000
DAY_MS = 24 * 3_600_000


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, timeout_ms=15_000)
    bench.bench.advance(10_000)
    assert bench.state() == "Ongoing"
    bench.bench.advance(10_000)
    assert bench.state() == "PrepareAbort"
    assert bench.markers.on_the_way[0].marker[:4] == (producer.id, producer.epoch + 1, 7, False)
    bench.complete()
    assert bench.commit(producer).error is ErrorCode.INVALID_TXN_STATE
    assert bench.add(producer, T0) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_is_not_aborted_before_its_timeout() -> None:
    bench = TxnBench()
    bench.opened(T0, timeout_ms=LOOK_MS)
    bench.bench.advance(LOOK_MS)
    assert bench.state() == "Ongoing"
    bench.bench.advance(LOOK_MS)
    assert bench.state() == "PrepareAbort"


def test_adding_partitions_does_not_extend_the_timeout() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, timeout_ms=15_000)
    bench.bench.advance(LOOK_MS)
    bench.add(producer, T1)
    bench.bench.advance(LOOK_MS)
    assert bench.state() == "PrepareAbort"


def test_the_producer_gets_the_new_epoch_by_its_own_abort() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, timeout_ms=1)
    bench.bench.advance(LOOK_MS)
    bench.complete()
    ended = bench.abort(producer)
    assert ended.producer == Producer(producer.id, producer.epoch + 1)
    assert bench.add(ended.producer, T0) is ErrorCode.NONE


def test_in_the_older_protocol_the_producer_is_fenced() -> None:
    bench = TxnBench(version=1)
    producer = bench.opened(T0, timeout_ms=1)
    bench.bench.advance(LOOK_MS)
    bench.complete()
    assert bench.state() == "CompleteAbort"
    assert bench.abort(producer, version=1).error is ErrorCode.PRODUCER_FENCED
    assert bench.init(expected=producer).error is ErrorCode.PRODUCER_FENCED


def test_a_prepared_commit_does_not_time_out() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, timeout_ms=1000)
    bench.commit(producer)
    bench.bench.advance(DAY_MS)
    assert bench.state() == "PrepareCommit"


def test_the_timeout_continues_under_another_coordinator() -> None:
    bench = TxnBench()
    bench.opened(T0, timeout_ms=15_000)
    bench.bench.advance(8_000)
    bench.restart()
    bench.bench.advance(LOOK_MS)
    assert bench.state() == "PrepareAbort"


def test_each_transaction_has_its_own_timeout() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, timeout_ms=15_000)
    bench.bench.advance(9_000)
    after = bench.commit(producer).producer
    bench.complete()
    bench.add(after, T0)
    bench.bench.advance(LOOK_MS + 1_000)
    assert bench.state() == "Ongoing"


def test_many_timed_out_transactions_are_aborted_in_slices() -> None:
    bench = TxnBench()
    names = [f"id-{number}" for number in range(RECORDS_AT_ONCE + 5)]
    for name in names:
        bench.opened(T0, name=name, timeout_ms=1)
    bench.bench.advance(LOOK_MS)
    assert {bench.state(name) for name in names} == {"PrepareAbort"}


def test_transactions_with_many_partitions_are_aborted_in_slices() -> None:
    bench = TxnBench(topics={"t": PARTITIONS_AT_ONCE})
    everything = [TopicPartition("t", index) for index in range(PARTITIONS_AT_ONCE)]
    for name in ("one", "two"):
        bench.opened(*everything, name=name, timeout_ms=1)
    bench.hold_commits()
    bench.bench.advance(LOOK_MS)
    assert [bench.state(name) for name in ("one", "two")] == ["PrepareAbort", "Ongoing"]
    bench.release_commits()
    bench.bench.advance(0)
    assert bench.state("two") == "PrepareAbort"


def test_refused_aborts_are_tried_again_after_the_interval() -> None:
    bench = TxnBench()
    for number in range(RECORDS_AT_ONCE + 5):
        bench.opened(T0, name=f"id-{number}", timeout_ms=1)
    bench.bench.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.bench.clock.now += LOOK_MS
    check = bench.bench.timers.pending.pop(ABORT_TIMED_OUT)
    bench.bench.apply(check.operation())
    assert bench.bench.timers.due_in(ABORT_TIMED_OUT) == LOOK_MS


# Unused ids


def test_an_unused_id_expires() -> None:
    bench = TxnBench(transactional_id_expiration_ms=str(DAY_MS))
    producer = bench.started()
    bench.bench.advance(DAY_MS - 1)
    assert bench.machine.table.get("id") is not None
    bench.bench.advance(3_600_000)
    assert bench.machine.table.get("id") is None
    assert bench.bench.values()[-1].value is None
    assert bench.commit(producer).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.restart()
    assert bench.machine.table.get("id") is None


def test_a_used_id_does_not_expire() -> None:
    bench = TxnBench(transactional_id_expiration_ms=str(DAY_MS))
    producer = bench.started()
    bench.bench.advance(DAY_MS - 1)
    bench.add(producer, T0)
    after = bench.commit(producer).producer
    bench.complete()
    bench.bench.advance(3_600_000)
    assert bench.add(after, T0) is ErrorCode.NONE


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    bench = TxnBench(transactional_id_expiration_ms="1000", transaction_two_phase_commit_enable="true")
    bench.opened(T0, name="open", two_phase=True)
    bench.commit(bench.opened(T0, name="ending"), name="ending")
    bench.bench.advance(DAY_MS)
    assert (bench.state("open"), bench.state("ending")) == ("Ongoing", "PrepareCommit")


def test_many_ids_expire_in_slices() -> None:
    bench = TxnBench(transactional_id_expiration_ms="1000")
    for number in range(RECORDS_AT_ONCE + 5):
        bench.started(f"id-{number}")
    bench.bench.advance(3_600_000)
    assert not list(bench.machine.table.items())
