"""AddPartitionsToTxn and verification."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.transaction import Producer
from tests.support.coordination import START_MS
from tests.support.txn_coordinator import T0, T1, T2, TxnBench


def test_the_first_partition_opens_the_transaction() -> None:
    bench = TxnBench()
    producer = bench.started()
    bench.bench.advance(5)
    assert bench.add(producer, T0, T1) is ErrorCode.NONE
    transaction = bench.transaction()
    assert transaction.state.label == "Ongoing"
    assert transaction.partitions == {T0, T1}
    assert transaction.started_ms == START_MS + 5


def test_partitions_accumulate_and_the_start_time_stays() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.bench.advance(5)
    bench.add(producer, T1)
    transaction = bench.transaction()
    assert transaction.partitions == {T0, T1}
    assert (transaction.started_ms, transaction.updated_ms) == (START_MS, START_MS + 5)


def test_known_partitions_are_not_written_again() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, T1)
    records = len(bench.bench.log)
    assert bench.add(producer, T1) is ErrorCode.NONE
    assert bench.add(producer, T0, T1) is ErrorCode.NONE
    assert len(bench.bench.log) == records


def test_only_the_current_producer_may_add() -> None:
    bench = TxnBench()
    producer = bench.started()
    assert bench.add(Producer(producer.id, 1), T0) is ErrorCode.PRODUCER_FENCED
    assert bench.add(Producer(producer.id, -1), T0) is ErrorCode.PRODUCER_FENCED
    assert bench.add(Producer(producer.id + 1, 0), T0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.add(producer, T0, name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.add(producer, T0, name="") is ErrorCode.INVALID_REQUEST
    assert bench.state() == "Empty"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_nothing_is_added_while_the_end_is_being_written(committed: bool, version: int) -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    after = bench.end(producer, committed=committed, version=version).producer
    for one in (producer, after):
        assert bench.add(one, T1) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.transaction().partitions == {T0}
    bench.complete()
    assert bench.add(after, T1) is ErrorCode.NONE
    assert bench.transaction().partitions == {T1}


def test_a_producer_of_the_previous_transaction_is_fenced_after_completion() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    bench.commit(producer)
    bench.complete()
    assert bench.add(producer, T0) is ErrorCode.PRODUCER_FENCED


def verified(bench: TxnBench, producer: Producer, *wanted: TopicPartition) -> list[ErrorCode]:
    partitions = frozenset(wanted)
    response = bench.machine.verify("id", producer, partitions)
    assert list(response) == sorted(wanted)
    return list(response.values())


def test_verification_reports_added_partitions_and_adds_none() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, T2)
    assert verified(bench, producer, T0, T1, T2) == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.NONE,
    ]
    assert bench.transaction().partitions == {T0, T2}


def test_verification_fails_for_others_and_between_transactions() -> None:
    bench = TxnBench()
    producer = bench.opened(T0)
    assert verified(bench, Producer(producer.id, 5), T0) == [ErrorCode.PRODUCER_FENCED]
    assert verified(bench, Producer(producer.id + 1, 0), T0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    after = bench.commit(producer).producer
    assert verified(bench, after, T0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    bench.complete()
    assert verified(bench, after, T0) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert verified(bench, producer, T0) == [ErrorCode.PRODUCER_FENCED]
