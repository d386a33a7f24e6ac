"""confluent-kafka, aiokafka, kafka-python and the raw client over SASL_PLAINTEXT with each mechanism."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from ottla.base.clock import SystemClock
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.settings import ClientSettings
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.support.sasl import USERS, oauth_settings, sasl_settings, scram_users
from tests.support.tokens import Provider

TIMEOUT_S = 30
BY_PASSWORD = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PROVIDER = Provider()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sasl")


@pytest.fixture(scope="module")
def sasl_broker(folder: Path) -> Iterator[BrokerProcess]:
    """One broker with all mechanisms and sessions of two seconds, so that clients that can do it re-authenticate."""
    port = free_port()
    settings = sasl_settings(port, ",".join([*BY_PASSWORD, "OAUTHBEARER"]), connections_max_reauth_ms="2000")
    settings |= oauth_settings(PROVIDER.write_jwks(folder / "jwks.json"))
    with BrokerProcess(folder / "data", settings, port=port, arguments=scram_users()) as process:
        yield process


def confluent(broker: BrokerProcess, mechanism: str) -> dict[str, Any]:
    common = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        expires = SystemClock().now_ms() / 1000 + 3600
        return {**common, "oauth_cb": lambda _: (PROVIDER.token(), expires)}
    return {**common, "sasl.username": "alice", "sasl.password": USERS["alice"]}


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_confluent_kafka(sasl_broker: BrokerProcess, mechanism: str) -> None:
    topic = f"confluent-{mechanism}"
    common = confluent(sasl_broker, mechanism)
    producer = Producer(common)
    producer.produce(topic, b"value")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, TIMEOUT_S)
    consumer.close()
    assert message.value() == b"value"


class AioTokens(AbstractTokenProvider):
    async def token(self) -> str:
        return PROVIDER.token()


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_aiokafka(sasl_broker: BrokerProcess, mechanism: str) -> None:
    topic = f"aiokafka-{mechanism}"

    def common() -> dict[str, Any]:
        made: dict[str, Any] = {
            "bootstrap_servers": sasl_broker.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return {**made, "sasl_oauth_token_provider": AioTokens()}
        return {**made, "sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}

    async def scenario() -> bytes | None:
        async with AIOKafkaProducer(**common()) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **common()) as consumer:
            return (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value

    assert asyncio.run(scenario()) == b"value"


class KafkaPythonTokens(KafkaPythonTokenProvider):
    def token(self) -> str:
        return PROVIDER.token()


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_kafka_python(sasl_broker: BrokerProcess, mechanism: str) -> None:
    topic = f"kafka-python-{mechanism}"
    common: dict[str, Any] = {
        "bootstrap_servers": sasl_broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        common["sasl_oauth_token_provider"] = KafkaPythonTokens()
    else:
        common |= {"sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
    producer = KafkaProducer(**common)
    producer.send(topic, b"value").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **common
    )
    assert next(iter(consumer)).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", [*BY_PASSWORD, "OAUTHBEARER"])
def test_the_raw_client(sasl_broker: BrokerProcess, folder: Path, mechanism: str) -> None:
    options = {
        "bootstrap.servers": sasl_broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    if mechanism == "OAUTHBEARER":
        (folder / "token").write_text(PROVIDER.token())
        options["sasl.oauthbearer.token.endpoint.url"] = (folder / "token").as_uri()
    with Cluster(ClientSettings.from_options(options)) as cluster:
        assert isinstance(cluster.topics(), dict)
