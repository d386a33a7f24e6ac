"""Replicas on real brokers: byte for byte equal after loads, transactions, kills and elections."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.records.batch import iter_batches
from ottla.records.record import iter_records
from ottla.testing.cluster import Cluster
from tests.support.waiting import wait_until

PARTITIONS = 3
TIMEOUT_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, data=tmp_path, proxies=False, config={"log.segment.bytes": "2000000"}) as running:
        yield running


def create(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(TIMEOUT_S)


class Load:
    """Produces numbered records and keeps the acknowledged ones."""

    def __init__(self, cluster: Cluster, topic: str, **settings: object) -> None:
        self.topic = topic
        self.acknowledged: set[bytes] = set()
        self.errors: list[KafkaError] = []
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, **settings})
        self._number = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            value = b"%d" % self._number
            self._number += 1
            while True:
                try:
                    self.producer.produce(
                        self.topic, value + bytes(100), key=value, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self.producer.poll(0.1)
            self.producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.key() or b"")
        else:
            self.errors.append(error)

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0


def copies(cluster: Cluster, topic: str, partition: int) -> list[bytes]:
    """The log files of each replica."""
    return [
        b"".join(path.read_bytes() for path in sorted((cluster.data / f"broker-{node_id}").glob(pattern)))
        for node_id in sorted(cluster.brokers)
        for pattern in [f"{topic}-{partition}/*.log"]
    ]


def wait_equal(cluster: Cluster, topic: str, partitions: int = PARTITIONS) -> list[bytes]:
    """Wait until all replicas are equal; returns the log of each partition."""

    def equal(partition: int) -> bool:
        logs = copies(cluster, topic, partition)
        return bool(logs[0]) and len(set(logs)) == 1

    for partition in range(partitions):
        wait_until(partial(equal, partition), f"equal replicas of {topic}-{partition}", TIMEOUT_S)
    return [copies(cluster, topic, partition)[0] for partition in range(partitions)]


def keys_in(logs: list[bytes]) -> list[bytes]:
    return [
        record.key or b""
        for log in logs
        for position, header in iter_batches(log)
        if not header.is_control
        for record in iter_records(memoryview(log)[position : position + header.size_in_bytes], header)
    ]


def test_replicas_of_100000_records_are_equal(cluster: Cluster) -> None:
    create(cluster, "many")
    load = Load(cluster, "many", acks="all", **{"enable.idempotence": True})
    load.send(100_000)
    load.flush()
    assert not load.errors
    logs = wait_equal(cluster, "many")
    assert sorted(keys_in(logs)) == sorted(load.acknowledged)
    assert len(load.acknowledged) == 100_000
    indexes = [
        sorted(path.name for path in (cluster.data / f"broker-{node_id}" / "many-0").glob("*.log"))
        for node_id in range(3)
    ]
    assert indexes[0] == indexes[1] == indexes[2]
    assert len(indexes[0]) > 1, "segments are rolled at the same offsets"


def test_transactions_are_copied_with_their_markers(cluster: Cluster) -> None:
    create(cluster, "transactions")
    load = Load(cluster, "transactions", **{"transactional.id": "copied"})
    load.producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        load.producer.begin_transaction()
        load.send(50)
        if number % 3:
            load.producer.commit_transaction(TIMEOUT_S)
        else:
            load.producer.abort_transaction(TIMEOUT_S)
    logs = wait_equal(cluster, "transactions")
    assert any(header.is_control for log in logs for _, header in iter_batches(log))
    for node_id in range(3):
        cluster.stop(node_id)
    for partition in range(PARTITIONS):
        aborted = {
            path.read_bytes()
            for node_id in range(3)
            for path in (cluster.data / f"broker-{node_id}" / f"transactions-{partition}").glob("*.txnindex")
        }
        assert len(aborted) <= 1


def test_a_killed_follower_catches_up(cluster: Cluster) -> None:
    create(cluster, "followed", 1)
    load = Load(cluster, "followed", acks="all")
    load.send(1000)
    load.flush()
    follower = next(one for one in range(3) if one != cluster.leader("followed"))
    cluster.kill(follower)
    load.send(5000)
    load.flush()
    cluster.restart(follower)
    wait_until(lambda: len(cluster.in_sync("followed")) == 3, "three replicas in sync", TIMEOUT_S)
    load.send(1000)
    load.flush()
    assert not load.errors
    logs = wait_equal(cluster, "followed", 1)
    assert sorted(set(keys_in(logs))) == sorted(load.acknowledged)


def test_a_killed_leader_removes_what_the_new_leader_lacks(cluster: Cluster) -> None:
    create(cluster, "moved", 1)
    for _ in range(3):
        durable = Load(cluster, "moved", acks="all")
        durable.send(500)
        durable.flush()
        leader = cluster.leader("moved")
        fast = Load(cluster, "moved", acks=1)
        fast.send(20_000)
        cluster.kill(leader)
        cluster.wait_leader("moved", other_than=leader)
        durable.send(500)
        durable.flush()
        fast.flush()
        cluster.restart(leader)
        wait_until(lambda: len(cluster.in_sync("moved")) == 3, "three replicas in sync", TIMEOUT_S)
        logs = wait_equal(cluster, "moved", 1)
        assert set(keys_in(logs)) >= durable.acknowledged
        assert not durable.errors
