"""A data directory is Kafka's: Apache Kafka's is opened and served by Ottla, and Ottla's by Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from bench.peers import KafkaPeer
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, create_topic, read_all

pytestmark = pytest.mark.compat

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
Read = list[tuple[int, bytes, bytes]]


def fill(bootstrap: str, topic: str, word: str) -> None:
    """A few segments of every codec; an idempotent producer fills the producer snapshots too."""
    for codec in CODECS:
        settings = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 5}
        records = [
            {"key": str(n), "value": f"{word} {codec} {n} ".encode() * 30, "partition": n % 2}
            for n in range(2_000)
        ]
        Publisher(bootstrap, settings).send(topic, records)


def content(bootstrap: str, topic: str) -> list[Read]:
    return [
        [
            (message.offset(), message.key(), message.value())
            for message in read_all(bootstrap, topic, partition)
        ]
        for partition in range(2)
    ]


def retention_of(bootstrap: str, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource])
    return str(described[resource].result(30)["retention.ms"].value)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_directory_of_kafka_is_served_by_ottla(kafka_jars: None, tmp_path: Path, ending: str) -> None:
    kafka = KafkaPeer(tmp_path / "shared")
    kafka.start()
    try:
        create_topic(kafka.bootstrap, "travels", 2, CONFIG)
        fill(kafka.bootstrap, "travels", "kafka")
        before = content(kafka.bootstrap, "travels")
    finally:
        getattr(kafka, ending)()
    with BrokerProcess(tmp_path / "shared") as ottla:
        assert content(ottla.bootstrap, "travels") == before
        assert retention_of(ottla.bootstrap, "travels") == "-1"
        (place,) = Publisher(ottla.bootstrap).send("travels", [{"value": b"more", "partition": 0}])
        assert place.offset == len(before[0])
        create_topic(ottla.bootstrap, "born-here", 2)


def test_a_directory_of_ottla_is_served_by_kafka_and_back(kafka_jars: None, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "shared", {"node.id": "1"}) as ottla:
        create_topic(ottla.bootstrap, "travels", 2, CONFIG)
        fill(ottla.bootstrap, "travels", "ottla")
        before = content(ottla.bootstrap, "travels")
    with KafkaPeer(tmp_path / "shared") as kafka:
        assert content(kafka.bootstrap, "travels") == before
        assert retention_of(kafka.bootstrap, "travels") == "-1"
        fill(kafka.bootstrap, "travels", "kafka")
        between = content(kafka.bootstrap, "travels")
    with BrokerProcess(tmp_path / "shared", {"node.id": "1"}) as ottla:
        assert content(ottla.bootstrap, "travels") == between
