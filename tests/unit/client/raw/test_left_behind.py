"""Responses that no caller receives are discarded."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw import Cluster, RawProducer, Refused, Unsupported, end_transactions
from ottla.client.raw import producer as producer_module
from ottla.client.raw.admin import list_open_transactions
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

from .two_brokers import TP, TWO, TwoBrokers, batches_of


def answers_kept(cluster: Cluster) -> int:
    """When every broker has answered everything that it was asked."""
    connections = [cluster.connection(node) for node in cluster.brokers()]
    for connection in connections:
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
    return sum(len(connection._responses) for connection in connections)


def test_a_reader_that_stops_early_discards_the_next_response(cluster: Cluster) -> None:
    reader = cluster.stream(TP, 0, 1000)
    next(reader)
    reader.close()  # type: ignore[attr-defined]
    assert answers_kept(cluster) == 0


def test_a_closed_producer_discards_its_responses(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)
    for _ in range(3):
        producer = RawProducer(cluster)
        producer.init()
        producer.send(TP, batches_of(20))
        producer.close()
        producer.close()
        assert answers_kept(cluster) == 0
        with pytest.raises(LocalError):
            producer.send(TP, batches_of(1))


@pytest.fixture
def busy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> RawProducer:
    """A producer with requests under way."""
    monkeypatch.setattr(producer_module, "REQUEST_BYTES", 1)
    producer = RawProducer(cluster)
    producer.init()
    producer.send(TP, batches_of(20))
    return producer


def test_a_closed_producer_whose_connection_was_lost(
    brokers: TwoBrokers, cluster: Cluster, busy: RawProducer
) -> None:
    for broker in brokers.brokers.values():
        broker.close()
    cluster.close()
    busy.close()
    with pytest.raises(LocalError, match="init"):
        busy.send(TP, batches_of(1))


def test_a_closed_producer_can_be_initialized_again(brokers: TwoBrokers, busy: RawProducer) -> None:
    busy.close()
    assert busy.init().epoch == 1
    busy.send(TP, batches_of(2))
    assert busy.flush().records == 2
    assert brokers.stored == [0, 1]


def test_transactions_are_ended_after_one_that_fails(brokers: TwoBrokers, cluster: Cluster) -> None:
    cluster.topics()
    brokers.denied = {"b"}
    with pytest.raises(Refused, match="AUTHORIZATION"):
        end_transactions(cluster, [(name, 5, 0) for name in "abcd"], commit=True)
    assert answers_kept(cluster) == 0


def test_open_transactions_after_an_error_of_one_broker(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.brokers[TWO].lacks = ListTransactionsRequest
    with pytest.raises(Unsupported, match="ListTransactions"):
        list_open_transactions(cluster, "")
    assert answers_kept(cluster) == 0
