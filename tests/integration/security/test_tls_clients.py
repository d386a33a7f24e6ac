"""Clients over TLS: confluent-kafka, aiokafka, kafka-python and the raw client, with and without certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from ottla.base.ids import TopicPartition
from ottla.client.raw import LATEST, ClientSettings, Cluster
from ottla.local.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.clients import create_topic, fresh
from tests.support.tls_files import TlsFiles

TIMEOUT_S = 60
VALUES = [b"value %d" % number for number in range(500)] + [bytes([number]) * 400_000 for number in range(4)]


@pytest.fixture(scope="module", params=["none", "required"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"), Authority(), client_auth=request.param)


@pytest.fixture(scope="module")
def broker(files: TlsFiles) -> Iterator[BrokerProcess]:
    with files.broker() as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess, files: TlsFiles) -> str:
    return create_topic(broker.bootstrap, fresh("tls"), security=files.librdkafka())


def consumed(broker: BrokerProcess, topic: str, options: dict[str, str]) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": fresh("group"),
            "auto.offset.reset": "earliest",
            **options,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES):
        messages = consumer.consume(100, TIMEOUT_S)
        assert messages, "records are missing"
        for message in messages:
            assert message.error() is None
            found.append(message.value() or b"")
    consumer.close()
    return found


def test_confluent_kafka(broker: BrokerProcess, files: TlsFiles, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **files.librdkafka()})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    assert consumed(broker, topic, files.librdkafka()) == VALUES


def test_aiokafka(broker: BrokerProcess, files: TlsFiles, topic: str) -> None:
    async def scenario() -> list[bytes]:
        security = {"security_protocol": "SSL", "ssl_context": files.context()}
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=1 << 20, **security)
        await producer.start()
        for value in VALUES:
            await producer.send(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **security
        )
        await consumer.start()
        found = [(await consumer.getone()).value for _ in VALUES]
        await consumer.stop()
        return found

    assert asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S)) == VALUES


def test_kafka_python(broker: BrokerProcess, files: TlsFiles, topic: str) -> None:
    security = {"security_protocol": "SSL", "ssl_context": files.context()}
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **security)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **security,
    )
    found = [record.value for record, _ in zip(consumer, VALUES, strict=False)]
    consumer.close()
    assert found == VALUES


def test_the_raw_client(broker: BrokerProcess, files: TlsFiles, topic: str) -> None:
    for options in (files.librdkafka(), files.java()):
        settings = ClientSettings.from_options({"bootstrap.servers": broker.bootstrap, **options})
        with Cluster(settings) as cluster:
            assert cluster.list_offsets({TopicPartition(topic, 0): LATEST})


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions(broker: BrokerProcess, files: TlsFiles, topic: str, version: ssl.TLSVersion) -> None:
    context = files.context()
    context.minimum_version = context.maximum_version = version
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, security_protocol="SSL", ssl_context=context)
    assert producer.send(topic, b"value").get(TIMEOUT_S).offset == 0
    producer.close()
