"""A cluster of three nodes with TLS and certificates on all listeners, with a kill."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from tests.support.certificates import Authority
from tests.support.clients import create_topic, fresh
from tests.support.tls_files import TlsFiles
from tests.support.waiting import wait_until

TIMEOUT_S = 60
COUNT = 2_000


class Cluster:
    def __init__(self, path: Path) -> None:
        self.files = TlsFiles(path, Authority(), client_auth="required")
        ports = free_ports(6)
        self.ports, self.controllers = ports[:3], ports[3:]
        voters = ",".join(f"{node}@localhost:{port}" for node, port in enumerate(self.controllers))
        self.brokers = [
            BrokerProcess(
                path / f"broker-{node}",
                {
                    "node.id": str(node),
                    "listeners": f"SSL://127.0.0.1:{self.ports[node]},CONTROLLER://127.0.0.1:{self.controllers[node]}",
                    "advertised.listeners": f"SSL://localhost:{self.ports[node]}",
                    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
                    "security.inter.broker.protocol": "SSL",
                    "controller.quorum.voters": voters,
                    "default.replication.factor": "3",
                    "min.insync.replicas": "2",
                    **self.files.stores(),
                },
                port=self.ports[node],
            )
            for node in range(3)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports)

    def options(self, **more: object) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap, **self.files.librdkafka(), **more}

    def leader(self, topic: str) -> int:
        metadata = AdminClient(self.options()).list_topics(topic, TIMEOUT_S)
        return metadata.topics[topic].partitions[0].leader

    def isr(self, topic: str) -> set[int]:
        metadata = AdminClient(self.options()).list_topics(topic, TIMEOUT_S)
        return set(metadata.topics[topic].partitions[0].isrs)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        for broker in made.brokers:
            broker.launch()
        for broker in made.brokers:
            broker.wait_ready()
        yield made
    finally:
        for broker in made.brokers:
            broker.kill()


def test_records_survive_the_kill_of_a_leader(cluster: Cluster) -> None:
    topic = create_topic(cluster.bootstrap, fresh("tls"), replicas=3, security=cluster.files.librdkafka())
    delivered: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        delivered.append(error)

    leader = cluster.leader(topic)
    producer = Producer(cluster.options(acks="all", **{"linger.ms": 5}))
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        producer.poll(0)
        if number == COUNT // 2:
            wait_until(lambda: producer.poll(0.1) >= 0 and len(delivered) > 0, "a delivery")
            cluster.brokers[leader].kill()
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None] * COUNT
    cluster.brokers[leader].start()
    wait_until(lambda: cluster.isr(topic) == {0, 1, 2}, "all replicas to be in sync")

    consumer = Consumer(cluster.options(**{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    found: list[int] = []
    while len(found) < COUNT:
        messages = consumer.consume(500, TIMEOUT_S)
        assert messages, "records are missing"
        found += [int(message.value() or b"") for message in messages]
    consumer.close()
    assert found == list(range(COUNT))


def test_controllers_refuse_plaintext(cluster: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", cluster.controllers[0]), TIMEOUT_S) as client:
        client.sendall(bytes(100))
        assert client.recv(100) == b""
    wait_until(lambda: "the client does not use TLS" in cluster.brokers[0].output(), "a log line")
