"""Two-phase commit (KIP-939): transactions without a timeout, kept and ended by another process."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    NEVER_TIMES_OUT_MS,
    NO_PRODUCER,
    Producer,
)
from tests.support.txn_coordinator import T0, T1, TxnBench

DAY_MS = 24 * 3_600_000
ON = {
    "transaction_two_phase_commit_enable": "true",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": str(DAY_MS),
}


def prepared(**options: bool) -> tuple[TxnBench, Producer]:
    """A transaction that a process has prepared for an external coordinator before it stopped."""
    bench = TxnBench(**ON)
    return bench, bench.opened(T0, two_phase=options.get("two_phase", True))


def test_two_phase_commit_must_be_enabled() -> None:
    assert TxnBench().init(two_phase=True).error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert TxnBench(**ON).init(two_phase=True).error is ErrorCode.NONE


def test_two_phase_transactions_never_time_out() -> None:
    """Not even after 25 days, the largest possible timeout."""
    bench, producer = prepared()
    bench.bench.advance(30 * DAY_MS)
    assert bench.state() == "Ongoing"
    bench.restart()
    bench.bench.advance(30 * DAY_MS)
    assert bench.state() == "Ongoing"
    assert bench.commit(producer).error is ErrorCode.NONE


def test_any_timeout_is_accepted_in_two_phase_commit() -> None:
    bench = TxnBench(**ON)
    assert bench.init(two_phase=True, timeout_ms=NEVER_TIMES_OUT_MS).error is ErrorCode.NONE
    assert bench.init(two_phase=True, timeout_ms=0).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("committed", [True, False])
def test_another_process_with_the_producer_id_can_end_it(committed: bool) -> None:
    bench, producer = prepared()
    bench.restart()
    assert bench.end(producer, committed=committed).error is ErrorCode.NONE
    bench.complete()
    assert bench.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_a_start_without_keep_prepared_aborts_it() -> None:
    bench, _ = prepared()
    assert bench.init(two_phase=True).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.state() == "PrepareAbort"


# keep_prepared


def test_a_start_with_keep_prepared_returns_the_producer_of_the_transaction() -> None:
    bench, producer = prepared()
    response = bench.init(two_phase=True, keep_prepared=True)
    assert response == (ErrorCode.NONE, Producer(producer.id, producer.epoch + 1), producer)
    assert bench.state() == "Ongoing"
    assert bench.transaction().partitions == {T0}
    assert not bench.markers.on_the_way


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("committed", [True, False])
def test_the_new_producer_ends_it_for_the_producer_that_wrote_it(committed: bool, restarted: bool) -> None:
    bench, writer = prepared()
    keeper = bench.started(two_phase=True, keep_prepared=True)
    if restarted:
        bench.restart()
    ended = bench.end(keeper, committed=committed)
    assert ended.producer == Producer(keeper.id, keeper.epoch + 1)
    marker = bench.markers.on_the_way[0].marker
    assert (marker.producer_id, marker.producer_epoch) == (writer.id, writer.epoch + 1)
    assert marker.committed is committed
    assert bench.end(keeper, committed=committed).error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.end(keeper, committed=committed) == ended
    assert bench.end(keeper, committed=not committed).error is ErrorCode.INVALID_TXN_STATE
    assert bench.add(ended.producer, T1) is ErrorCode.NONE


def test_the_producer_that_wrote_it_is_fenced() -> None:
    bench, writer = prepared()
    keeper = bench.started(two_phase=True, keep_prepared=True)
    assert bench.commit(writer).error is ErrorCode.PRODUCER_FENCED
    assert bench.abort(writer).error is ErrorCode.PRODUCER_FENCED
    assert bench.add(writer, T1) is ErrorCode.PRODUCER_FENCED
    assert bench.machine.verify("id", writer, frozenset({T0})) == {T0: ErrorCode.PRODUCER_FENCED}
    assert bench.commit(keeper).error is ErrorCode.NONE


def test_no_partition_is_added_to_a_kept_transaction() -> None:
    bench, _ = prepared()
    keeper = bench.started(two_phase=True, keep_prepared=True)
    assert bench.add(keeper, T1) is ErrorCode.INVALID_TXN_STATE
    assert bench.add(keeper, T0) is ErrorCode.INVALID_TXN_STATE
    assert bench.machine.verify("id", keeper, frozenset({T0})) == {T0: ErrorCode.INVALID_TXN_STATE}


def test_each_new_producer_fences_the_previous_one() -> None:
    bench, writer = prepared()
    first = bench.started(two_phase=True, keep_prepared=True)
    response = bench.init(two_phase=True, keep_prepared=True)
    assert response == (ErrorCode.NONE, Producer(first.id, first.epoch + 1), writer)
    assert bench.commit(first).error is ErrorCode.PRODUCER_FENCED
    assert bench.init(keep_prepared=True, expected=first).error is ErrorCode.PRODUCER_FENCED
    assert bench.commit(response.producer).error is ErrorCode.NONE


def test_a_start_without_keep_prepared_aborts_a_kept_transaction() -> None:
    bench, writer = prepared()
    keeper = bench.started(two_phase=True, keep_prepared=True)
    assert bench.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.markers.on_the_way[0].marker[:2] == (writer.id, writer.epoch + 1)
    bench.complete()
    assert bench.state() == "CompleteAbort"
    assert bench.started() == Producer(keeper.id, keeper.epoch + 2)
    assert bench.commit(keeper).error is ErrorCode.PRODUCER_FENCED


def test_without_an_open_transaction_there_is_nothing_to_keep() -> None:
    bench = TxnBench(**ON)
    first = bench.init(two_phase=True, keep_prepared=True)
    assert first.ongoing == NO_PRODUCER
    producer = bench.started(two_phase=True, keep_prepared=True)
    assert producer == Producer(first.producer.id, 1)
    assert bench.add(producer, T0) is ErrorCode.NONE


def test_a_prepared_end_cannot_be_kept() -> None:
    bench, producer = prepared()
    bench.commit(producer)
    assert bench.init(keep_prepared=True).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.state() == "PrepareCommit"


def test_keep_prepared_keeps_the_timeout_unless_two_phase_is_set() -> None:
    bench, _ = prepared(two_phase=False)
    bench.started(keep_prepared=True, timeout_ms=5)
    assert bench.transaction().timeout_ms == 60_000
    bench.started(keep_prepared=True, two_phase=True)
    bench.started(keep_prepared=True, timeout_ms=5)
    bench.bench.advance(30 * DAY_MS)
    assert bench.state() == "Ongoing"


def test_a_kept_transaction_with_a_timeout_is_aborted_by_it() -> None:
    bench, writer = prepared(two_phase=False)
    keeper = bench.started(keep_prepared=True)
    bench.bench.advance(DAY_MS)
    assert bench.markers.on_the_way[0].marker[:2] == (writer.id, writer.epoch + 1)
    bench.complete()
    assert bench.commit(keeper).error is ErrorCode.INVALID_TXN_STATE
    assert bench.abort(keeper).producer == Producer(keeper.id, keeper.epoch + 1)


def test_keep_prepared_needs_version_1_of_the_log_format() -> None:
    assert TxnBench(version=0, **ON).init(keep_prepared=True).error is ErrorCode.UNSUPPORTED_VERSION


def test_in_the_older_protocol_the_new_producer_continues_with_its_epoch() -> None:
    bench = TxnBench(version=1, **ON)
    writer = bench.opened(T0, two_phase=True)
    keeper = bench.started(two_phase=True, keep_prepared=True)
    assert bench.commit(keeper, version=1).producer == keeper
    assert bench.markers.on_the_way[0].marker[:2] == writer
    bench.complete()
    assert bench.transaction().producer == keeper


@pytest.mark.parametrize("restarted", [True, False])
def test_keep_prepared_with_the_last_epoch_gets_a_new_producer_id(restarted: bool) -> None:
    bench = TxnBench(**ON)
    writer = bench.started(two_phase=True)._replace(epoch=LAST_CLIENT_EPOCH)
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    bench.add(writer, T0)
    keeper = bench.started(two_phase=True, keep_prepared=True)
    assert (keeper.id != writer.id, keeper.epoch) == (True, 0)
    bench.put(next_producer_epoch=LAST_CLIENT_EPOCH)
    keeper = keeper._replace(epoch=LAST_CLIENT_EPOCH)
    ended = bench.commit(keeper)
    assert (ended.producer.id not in (keeper.id, writer.id), ended.producer.epoch) == (True, 0)
    assert bench.markers.on_the_way[0].marker[:2] == (writer.id, 32767)
    if restarted:
        bench.restart()
    assert bench.commit(keeper).error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.commit(keeper) == ended
