"""EndTxn with both versions of the protocol, and its retries."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.txn.responses import EndTxnResult
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH, NO_PRODUCER, NeedsProducerId, Producer
from tests.support.txn_coordinator import T0, T1, TxnBench

WAYS = [(True, "Commit"), (False, "Abort")]


def refused(code: ErrorCode) -> EndTxnResult:
    return EndTxnResult(code, NO_PRODUCER)


@pytest.mark.parametrize(("committed", "way"), WAYS)
def test_an_end_is_prepared_and_completed_the_same_way(committed: bool, way: str) -> None:
    bench = TxnBench()
    producer = bench.opened(T0, T1)
    bench.end(producer, committed=committed)
    assert bench.state() == f"Prepare{way}"
    assert [sent.marker.committed for sent in bench.markers.on_the_way] == [committed]
    bench.complete()
    assert bench.state() == f"Complete{way}"
    assert bench.transaction().partitions == frozenset()


@pytest.mark.parametrize("committed", [True, False])
def test_every_end_raises_the_epoch(committed: bool) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    ended = bench.end(producer, committed=committed)
    assert ended == EndTxnResult(ErrorCode.NONE, Producer(producer.id, producer.epoch + 1))
    assert bench.markers.on_the_way[0].marker[:2] == ended.producer
    bench.complete()
    assert bench.transaction().producer == ended.producer
    assert bench.add(ended.producer, T0) is ErrorCode.NONE


@pytest.mark.parametrize(("feature", "client"), [(0, 2), (1, 2), (2, 0), (2, 1)])
def test_the_epoch_stays_unless_both_sides_use_the_newer_protocol(feature: int, client: int) -> None:
    bench = TxnBench(version=feature)
    producer = bench.opened(T0)
    assert bench.commit(producer, version=client) == EndTxnResult(ErrorCode.NONE, producer)
    assert bench.markers.on_the_way[0].marker[:2] == producer
    bench.complete()
    assert bench.transaction().producer == producer


# Retries after a lost response


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_repeated_end_gets_the_same_response_after_completion(committed: bool, version: int) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    ended = bench.end(producer, committed=committed, version=version)
    again = bench.end(producer, committed=committed, version=version)
    assert again == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    bench.complete()
    records = len(bench.bench.log)
    assert bench.end(producer, committed=committed, version=version) == ended
    assert len(bench.bench.log) == records
    assert not bench.markers.on_the_way


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_end_cannot_be_changed(committed: bool, version: int) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.end(producer, committed=committed, version=version)
    turned = bench.end(producer, committed=not committed, version=version)
    assert turned == refused(ErrorCode.INVALID_TXN_STATE)
    bench.complete()
    assert bench.end(producer, committed=not committed, version=version).error is ErrorCode.INVALID_TXN_STATE
    assert bench.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_an_end_is_repeated_to_another_coordinator() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    ended = bench.commit(producer)
    bench.restart()
    assert bench.commit(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.complete()
    assert bench.commit(producer) == ended


def test_an_end_is_repeated_after_a_feature_downgrade() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    ended = bench.commit(producer)
    bench.complete()
    bench.set_version(1)
    assert bench.commit(producer) == ended


def test_an_end_of_the_transaction_before_last_is_fenced() -> None:
    bench = TxnBench()
    first = bench.opened(T0)
    second = bench.commit(first).producer
    bench.complete()
    bench.add(second, T0)
    bench.abort(second)
    bench.complete()
    assert bench.commit(first).error is ErrorCode.PRODUCER_FENCED


def test_a_late_end_does_not_end_the_next_transaction() -> None:
    bench = TxnBench()
    first = bench.opened(T0)
    second = bench.commit(first).producer
    bench.complete()
    bench.add(second, T1)
    assert bench.commit(first).error is ErrorCode.PRODUCER_FENCED
    assert bench.state() == "Ongoing"


def test_an_end_without_an_epoch_bump_is_not_a_retry() -> None:
    """Apache Kafka returns success to the producer with the previous epoch."""
    bench = TxnBench()
    old = bench.started()
    new = bench.opened(T0)
    bench.commit(new, version=0)
    bench.complete()
    assert bench.commit(old).error is ErrorCode.PRODUCER_FENCED


# Empty transactions


@pytest.mark.parametrize("committed", [True, False])
def test_in_the_older_protocol_an_empty_transaction_cannot_be_ended(committed: bool) -> None:
    bench = TxnBench()
    producer = bench.started()
    assert bench.end(producer, committed=committed, version=1).error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("earlier", [None, True, False])
def test_in_the_newer_protocol_an_empty_transaction_can_be_aborted(earlier: bool | None) -> None:
    bench = TxnBench()
    producer = bench.started()
    if earlier is not None:
        bench.add(producer, T0)
        producer = bench.end(producer, committed=earlier).producer
        bench.complete()
    assert bench.commit(producer).error is ErrorCode.INVALID_TXN_STATE
    ended = bench.abort(producer)
    assert ended == EndTxnResult(ErrorCode.NONE, Producer(producer.id, producer.epoch + 1))
    bench.complete()
    assert bench.state() == "CompleteAbort"
    assert bench.abort(producer) == ended
    assert bench.transaction().started_ms == bench.bench.clock.now


def test_a_producer_ahead_of_the_markers_must_retry() -> None:
    bench = TxnBench()
    after = bench.commit(bench.opened(T0)).producer
    assert bench.abort(after).error is ErrorCode.CONCURRENT_TRANSACTIONS


# Wrong producers


@pytest.mark.parametrize("version", [1, 2])
def test_only_the_current_producer_may_end(version: int) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    for other, error in [
        (Producer(producer.id, producer.epoch + 1), ErrorCode.PRODUCER_FENCED),
        (Producer(producer.id, producer.epoch - 1), ErrorCode.PRODUCER_FENCED),
        (Producer(producer.id + 1, producer.epoch), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ]:
        assert bench.commit(other, version=version) == refused(error)
    assert (
        bench.commit(producer, name="other", version=version).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert bench.commit(producer, name="", version=version).error is ErrorCode.INVALID_REQUEST
    assert bench.state() == "Ongoing"


# Exhausted epochs


def exhausted() -> tuple[TxnBench, Producer]:
    bench = TxnBench()
    producer = bench.started()._replace(epoch=LAST_CLIENT_EPOCH)
    bench.put(producer_epoch=LAST_CLIENT_EPOCH)
    assert bench.add(producer, T0) is ErrorCode.NONE
    return bench, producer


def test_the_end_with_the_last_epoch_rotates_the_producer_id() -> None:
    bench, producer = exhausted()
    with pytest.raises(NeedsProducerId):
        bench.machine.end("id", producer, committed=True, client_version=2)
    ended = bench.commit(producer)
    assert (ended.error, ended.producer.epoch) == (ErrorCode.NONE, 0)
    assert ended.producer.id != producer.id
    assert bench.markers.on_the_way[0].marker[:2] == (producer.id, 32767)
    bench.complete()
    assert bench.transaction().producer == ended.producer
    assert bench.transaction().previous_producer_id == producer.id
    assert bench.add(ended.producer, T0) is ErrorCode.NONE


@pytest.mark.parametrize("restarted", [True, False])
def test_a_repeated_rotation_needs_no_other_producer_id(restarted: bool) -> None:
    bench, producer = exhausted()
    ended = bench.commit(producer)
    if restarted:
        bench.restart()
    assert bench.commit(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.abort(producer).error is ErrorCode.INVALID_TXN_STATE
    bench.complete()
    assert bench.commit(producer) == ended
    assert bench.abort(producer).error is ErrorCode.INVALID_TXN_STATE


def test_the_previous_producer_id_with_another_epoch_is_unknown() -> None:
    bench, producer = exhausted()
    bench.commit(producer)
    bench.complete()
    other = producer._replace(epoch=LAST_CLIENT_EPOCH - 1)
    assert bench.commit(other).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_is_being_ended_keeps_its_start_time(version: int) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    started_ms = bench.transaction().started_ms
    bench.bench.advance(5)
    bench.commit(producer, version=version)
    transaction = bench.transaction()
    assert (transaction.started_ms, transaction.updated_ms) == (started_ms, started_ms + 5)
