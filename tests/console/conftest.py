"""One cluster and one console for all tests of the console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.console.server import ConsoleServer
from tests.support.console import ControlledCluster, console_for

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
TOPICS = {"orders": 3, "hostile": 1, "empty": 1}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of the console share a cluster and a browser: one process gets all of them."""
    for item in items:
        if item.nodeid.startswith("tests/console/"):
            item.add_marker(pytest.mark.xdist_group("console"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlledCluster]:
    """Three brokers in two racks, with some topics."""
    with ControlledCluster(tmp_path_factory.mktemp("console") / "data", SETTINGS) as made:
        admin = AdminClient({"bootstrap.servers": made.local.bootstrap})
        created = admin.create_topics([NewTopic(name, count, 3) for name, count in TOPICS.items()])
        for future in created.values():
            future.result(60)
        producer = Producer({"bootstrap.servers": made.local.bootstrap, "log_level": 0})
        for number in range(120):
            value = f'{{"id": {number}, "total": {number * 1.5}, "status": "{("new", "paid")[number % 2]}"}}'
            producer.produce("orders", value, f"customer-{number % 7}", headers={"trace": f"t{number}"})
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": made.local.bootstrap, "group.id": "billing", "log_level": 0}
        )
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        consumer.close()
        yield made


@pytest.fixture(scope="session")
def console(cluster: ControlledCluster) -> Iterator[ConsoleServer]:
    with console_for(cluster.local.bootstrap, cluster.control) as server:
        yield server


@pytest.fixture(scope="session")
def read_only(cluster: ControlledCluster) -> Iterator[ConsoleServer]:
    with console_for(cluster.local.bootstrap, cluster.control, read_only=True) as server:
        yield server
