"""A broker that was replaced by a new one on the same port, within the life of a worker process.

The new one gives out the same producer ids as the old one did: who goes on with one of those would find its records
taken for another's, stored already.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.base.ids import TopicPartition
from ottla.client.raw import (
    EARLIEST,
    LATEST,
    ClientSettings,
    Cluster,
    ClusterReplaced,
    RawProducer,
    describe_transaction,
)
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.spark.sink import producer_cache as producers
from ottla.spark.sink.producer_cache import ProducerCache
from tests.conftest import MakeBroker
from tests.integration.test_task_transactions import Worker
from tests.support.clients import create_topic

TP = TopicPartition("t", 0)
ONE = BinaryColumn(b"\0\0\0\0\3\0\0\0", b"one")
Replace = Callable[[], BrokerProcess]


@pytest.fixture
def broker(make_broker: MakeBroker) -> BrokerProcess:
    made = make_broker(name="old")
    create_topic(made.bootstrap, TP.topic)
    return made


@pytest.fixture
def replace(broker: BrokerProcess, make_broker: MakeBroker) -> Replace:
    def replaced() -> BrokerProcess:
        broker.kill()
        made = make_broker(name="new", port=broker.port)
        create_topic(made.bootstrap, TP.topic)
        return made

    return replaced


def cluster_of(broker: BrokerProcess) -> Cluster:
    return Cluster(ClientSettings.from_options({"bootstrap.servers": broker.bootstrap}))


def write(producer: RawProducer) -> None:
    producer.send(TP, columns.encode(ONE, 1, timestamp_ms=1))
    producer.flush()


def count(cluster: Cluster) -> int:
    first, last = (cluster.list_offsets({TP: place})[TP][0] for place in (EARLIEST, LATEST))
    return last - first


@pytest.mark.parametrize("is_known_already", [False, True])
def test_a_producer_does_not_go_on_there(
    broker: BrokerProcess, replace: Replace, is_known_already: bool
) -> None:
    with cluster_of(broker) as cluster:
        producer = RawProducer(cluster)
        producer.init()
        write(producer)
        replace()
        if is_known_already:
            assert describe_transaction(cluster, "unknown") is None, "the process has connected again"
        assert producer.is_known is not is_known_already
        with pytest.raises(ClusterReplaced, match=f"another cluster responds at 127.0.0.1:{broker.port}"):
            write(producer)
        producer.close()
        producer.init()
        write(producer)
        assert count(cluster) == 1


def test_kept_producers_are_not_kept_for_it(
    broker: BrokerProcess, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "IDLE_S", 0.0)
    workers = [(ProducerCache(), cluster_of(broker)) for _ in range(2)]
    kept, cluster = workers[0]
    producer = kept.acquire(cluster)
    write(producer)
    kept.release(cluster, producer)
    assert kept.acquire(cluster) is producer
    kept.release(cluster, producer)
    replace()
    for _ in range(3):
        for kept, cluster in reversed(workers):
            producer = kept.acquire(cluster)
            write(producer)
            kept.release(cluster, producer)
    assert count(workers[0][1]) == 6
    for _, cluster in workers:
        cluster.close()


def test_a_transactional_producer_begins_anew_there(broker: BrokerProcess, replace: Replace) -> None:
    worker = Worker(broker)
    worker.end(worker.write(b"old"), commit=True)
    new = replace()
    create_topic(new.bootstrap, worker.topic)
    for value in (b"1", b"2"):
        worker.end(worker.write(value), commit=True)
    worker.expect("1", "2")
