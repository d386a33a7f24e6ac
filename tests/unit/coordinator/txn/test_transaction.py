"""Records of the transaction log in both versions."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.records import PartitionsSchema, TransactionLogValue
from ottla.coordinator.txn.transaction import Producer, Transaction, from_value, to_record
from ottla.coordinator.txn.transitions import TRANSITIONS, TxnState
from ottla.wire import codec
from tests.support.coordination import START_MS
from tests.support.txn_coordinator import T0, T1, TxnBench

EVERYTHING = Transaction(
    producer_id=1,
    producer_epoch=2,
    previous_producer_id=3,
    next_producer_id=4,
    next_producer_epoch=5,
    timeout_ms=6,
    state=TxnState.PREPARE_ABORT,
    partitions=frozenset({T0, T1, TopicPartition("u", 0)}),
    started_ms=7,
    updated_ms=8,
    client_version=2,
)


def value_of(transaction: Transaction, version: int) -> TransactionLogValue:
    value = to_record("id", transaction, version).value
    assert isinstance(value, TransactionLogValue)
    return codec.decode(TransactionLogValue, memoryview(codec.encode(value, version)), version)


def test_version_1_stores_all_fields() -> None:
    assert from_value(value_of(EVERYTHING, 1)) == EVERYTHING


def test_version_0_stores_the_fields_it_has() -> None:
    kept = from_value(value_of(EVERYTHING, 0))
    assert kept.producer == EVERYTHING.producer
    assert kept.partitions == EVERYTHING.partitions
    assert (kept.previous_producer_id, kept.next_producer_id, kept.client_version) == (-1, -1, 0)


@pytest.mark.parametrize(("feature", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_feature_decides_the_version(feature: int, version: int) -> None:
    bench = TxnBench(version=feature)
    bench.started()
    assert bench.bench.values()[-1].version == version


def test_values_are_those_that_apache_kafka_writes() -> None:
    """Compared with a log of Kafka 4.3: InitProducerId, AddPartitionsToTxn, EndTxn and the completion."""
    bench = TxnBench()
    producer = bench.opened(T1, T0)
    bench.commit(producer)
    bench.complete()
    common = {
        "producer_id": 1001,
        "previous_producer_id": 1001,
        "transaction_timeout_ms": 60_000,
        "transaction_last_update_timestamp_ms": START_MS,
        "transaction_start_timestamp_ms": START_MS,
    }
    listed = [PartitionsSchema(topic="t", partition_ids=[0, 1])]
    assert [record.value for record in bench.bench.values()] == [
        TransactionLogValue(
            **{**common, "transaction_start_timestamp_ms": -1},
            transaction_status=0,
            transaction_partitions=None,
        ),
        TransactionLogValue(**common, transaction_status=1, transaction_partitions=listed),
        TransactionLogValue(
            **common,
            producer_epoch=1,
            transaction_status=2,
            transaction_partitions=listed,
            client_transaction_version=2,
        ),
        TransactionLogValue(
            **common,
            producer_epoch=1,
            transaction_status=4,
            transaction_partitions=[],
            client_transaction_version=2,
        ),
    ]


@pytest.mark.parametrize(
    ("next_producer", "client", "successor"),
    [
        ((-1, -1), Producer(1, 2), Producer(1, 2)),
        ((4, -1), Producer(1, 2), Producer(4, 0)),
        ((4, 5), Producer(4, 5), Producer(4, 5)),
    ],
)
def test_client_and_successor_producers(
    next_producer: tuple[int, int], client: Producer, successor: Producer
) -> None:
    transaction = Transaction(
        producer_id=1,
        producer_epoch=2,
        next_producer_id=next_producer[0],
        next_producer_epoch=next_producer[1],
        timeout_ms=6,
    )
    assert (transaction.client, transaction.successor) == (client, successor)


def test_a_prepared_state_leads_only_to_its_completion() -> None:
    after = {
        state: [each for each in TxnState if TRANSITIONS.allows(state, each)]
        for state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT, TxnState.DEAD)
    }
    assert after == {
        TxnState.PREPARE_COMMIT: [TxnState.COMPLETE_COMMIT],
        TxnState.PREPARE_ABORT: [TxnState.COMPLETE_ABORT],
        TxnState.DEAD: [],
    }


def test_labels_are_those_of_the_protocol() -> None:
    assert [state.label for state in TxnState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
