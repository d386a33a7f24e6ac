"""A broker of a cluster whose disk is full: others take over, and it returns by itself when there is space."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.local.cluster import LocalCluster
from tests.chaos.small_disk import SmallDisk, unavailable
from tests.support.clients import create_topic
from tests.support.waiting import wait_until

TOPIC, FULL = "orders", 1
pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path / "data" / f"broker-{FULL}")
    yield made
    made.unmount()


@pytest.fixture
def cluster(disk: SmallDisk, tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "data", 3)
    try:
        made.start()
        yield made
    finally:
        made.kill_all()


def in_sync(cluster: LocalCluster) -> list[set[int]]:
    response = cluster.metadata([TOPIC])
    return [] if response is None else [set(each.isr_nodes) for each in response.topics[0].partitions]


def test_the_broker_stops_and_returns_in_the_same_process(cluster: LocalCluster, disk: SmallDisk) -> None:
    create_topic(cluster.bootstrap, TOPIC, 3, replicas=3)
    broker, delivered = cluster.brokers[FULL], set[tuple[int, int]]()
    pid, producer = (
        broker.pid,
        Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}),
    )

    def on_delivery(error: object, message: object) -> None:
        assert error is None, error
        delivered.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def produce() -> None:
        for partition in range(3):
            producer.produce(TOPIC, os.urandom(20_000), partition=partition, on_delivery=on_delivery)
        assert producer.flush(60) == 0

    produce()
    disk.fill()

    def stopped() -> bool:
        produce()
        return "stopped until the disk has space" in broker.output()

    wait_until(stopped, "the broker to stop", 60)
    produce()
    assert all(FULL not in each for each in in_sync(cluster)), "others lead, and do not wait for it"
    assert broker.running
    disk.empty()
    wait_until(lambda: in_sync(cluster) == [{0, 1, 2}] * 3, "all replicas to be in sync", 90)
    produce()
    assert broker.pid == pid
    assert broker.output().count("ready ") == 2
    for node_id in (0, 2):
        cluster.stop(node_id)
        cluster.restart(node_id)
        wait_until(lambda: in_sync(cluster) == [{0, 1, 2}] * 3, "all replicas to be in sync", 90)
    produce()
    sizes = {p: max(offset for each, offset in delivered if each == p) + 1 for p in range(3)}
    assert len(delivered) == sum(sizes.values()), "offsets were acknowledged once"
    assert broker.stop() == 0


def test_a_broker_that_waits_for_space_can_be_stopped(cluster: LocalCluster, disk: SmallDisk) -> None:
    create_topic(cluster.bootstrap, TOPIC, 3, replicas=3)
    broker, producer = (
        cluster.brokers[FULL],
        Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}),
    )
    disk.fill()

    def stopped() -> bool:
        producer.produce(TOPIC, os.urandom(100_000))
        producer.flush(60)
        return "stopped until the disk has space" in broker.output()

    wait_until(stopped, "the broker to stop", 60)
    assert broker.stop() == 0
