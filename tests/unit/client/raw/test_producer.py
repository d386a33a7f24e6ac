"""A producer and a broker that returns errors."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.client.raw import (
    NO_OFFSET,
    ClientSettings,
    Cluster,
    RawProducer,
    Refused,
    TransactionEnd,
    transactions,
)
from ottla.client.raw import producer as producer_module
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

from .test_retry import Time
from .two_brokers import TP, TWO, TwoBrokers, batches_of

LATER = ErrorCode.NOT_ENOUGH_REPLICAS
EPOCH_LAST = 32_766
"""The last epoch that a coordinator gives out under one producer id."""


def begun(cluster: Cluster, transactional_id: str | None = None) -> RawProducer:
    producer = RawProducer(cluster, transactional_id)
    producer.init()
    if transactional_id is not None:
        producer.begin()
    return producer


def times_asked(brokers: TwoBrokers, request: type) -> int:
    return sum(asked is request for _, asked in brokers.asked)


def timed(brokers: TwoBrokers, time: Time) -> Cluster:
    return Cluster(
        ClientSettings.from_options({"bootstrap.servers": brokers.bootstrap}), clock=time, wait=time.wait
    )


def test_each_failure_starts_a_new_timeout(brokers: TwoBrokers) -> None:
    """An hour after one failure the next one is as new."""
    time = Time()
    with timed(brokers, time) as cluster:
        producer = begun(cluster)
        for _ in range(3):
            brokers.refusals = [LATER]
            producer.send(TP, batches_of(1))
            producer.flush()
            time.now += 3600
        assert time.waits == [0.1] * 3
    assert brokers.stored == [0, 1, 2]


def test_failed_batches_count_as_queued(brokers: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they fail, `send` returns only when the queue is short."""
    batches = batches_of(100)
    short = 10
    monkeypatch.setattr(producer_module, "_QUEUED_BYTES_MAX", short * len(batches[0]))
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)
    brokers.refusals = [LATER] * 100
    with timed(brokers, Time()) as cluster:
        producer = begun(cluster)
        producer.send(TP, batches)
        assert producer.acknowledged.records >= len(batches) - short - producer_module.IN_FLIGHT_MAX
        assert producer.flush().records == len(batches)
    assert brokers.stored == list(range(len(batches)))


def test_a_duplicate_batch_counts_as_stored(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.refusals = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    producer = begun(cluster)
    producer.send(TP, batches_of(1))
    assert producer.flush().records == 1
    assert producer.last_offset(TP) == NO_OFFSET, "the broker does not know any more where"


def test_batches_after_a_failed_one_are_sent_again_after_it(brokers: TwoBrokers, cluster: Cluster) -> None:
    """The broker refuses the first, so to it the others are out of order."""
    brokers.refusals = [LATER]
    producer = begun(cluster)
    producer.send(TP, batches_of(8))
    assert producer.flush().records == 8
    assert brokers.stored == list(range(8))


def test_an_out_of_order_error_without_a_failed_batch_is_final(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.refusals = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    producer = begun(cluster)
    producer.send(TP, batches_of(1))
    with pytest.raises(Refused, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        producer.flush()


@pytest.mark.parametrize("is_known", [True, False])
def test_sequences_restart_after_the_abort_of_batches_that_may_be_stored(
    brokers: TwoBrokers, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Without KIP-890, the epoch is raised only if the next sequence number is unknown."""
    monkeypatch.setattr(transactions, "IMPLICIT_SINCE", 99)
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)
    producer = begun(cluster, "id")
    producer.send(TP, batches_of(1))
    producer.flush()
    if not is_known:
        brokers.leader, brokers.hangs_up = TWO, True
    producer.send(TP, batches_of(1))
    assert producer.end(commit=False) is TransactionEnd.ENDED
    assert times_asked(brokers, InitProducerIdRequest) == (1 if is_known else 2)
    producer.begin()
    producer.send(TP, batches_of(1))
    assert producer.end(commit=True) is TransactionEnd.ENDED
    assert brokers.stored == ([0, 1, 2] if is_known else [0])


def test_the_next_transaction_needs_no_request(brokers: TwoBrokers, cluster: Cluster) -> None:
    """Who ends the one before raises the epoch by one, and sequences begin anew."""
    producer = begun(cluster, "id")
    for epoch in range(3):
        assert producer.identity.epoch == epoch
        producer.send(TP, batches_of(2))
        assert producer.flush().records == 2
        assert brokers.stored == [0, 1]
        assert brokers.stored_epoch == epoch
        assert producer.begin_next()
        assert producer.partitions == []
    assert times_asked(brokers, InitProducerIdRequest) == 1
    assert times_asked(brokers, EndTxnRequest) == 0


@pytest.mark.parametrize("epoch", [EPOCH_LAST - 2, EPOCH_LAST - 1, EPOCH_LAST])
def test_begin_next_fails_at_the_last_epochs(brokers: TwoBrokers, cluster: Cluster, epoch: int) -> None:
    brokers.epoch = epoch - 1
    producer = begun(cluster, "id")
    producer.send(TP, batches_of(1))
    producer.flush()
    assert producer.begin_next() is (epoch < EPOCH_LAST - 1)


def test_begin_next_requires_implicit_partitions(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "IMPLICIT_SINCE", 99)
    producer = begun(cluster, "id")
    producer.send(TP, batches_of(1))
    producer.flush()
    assert not producer.begin_next()


def test_begin_next_requires_a_written_transaction(cluster: Cluster) -> None:
    producer = begun(cluster, "id")
    assert not producer.begin_next(), "nothing was written"
    producer.send(TP, batches_of(1))
    with pytest.raises(LocalError, match=r"call flush\(\) before begin_next\(\)"):
        producer.begin_next()
    producer.end(commit=True)
    assert not producer.begin_next(), "it is ended already"
