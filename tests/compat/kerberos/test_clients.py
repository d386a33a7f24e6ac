"""Clients of other projects, and Ottla's own, log in with tickets of a real server of Kerberos."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.peers import KafkaPeer, free_port
from ottla.base.errors import LocalError
from ottla.client.raw import AuthenticationFailed, ClientSettings, Cluster
from ottla.local.broker_process import BrokerProcess
from tests.compat.java_tools import JavaTools, Ran
from tests.compat.kerberos.realm import KERBEROS, SERVICE, Realm
from tests.support.clients import fresh

pytestmark = pytest.mark.compat


def bootstrap(broker: BrokerProcess) -> str:
    """The address with the name that the principal of the broker has."""
    return f"localhost:{broker.port}"


def java(
    tools: JavaTools,
    folder: Path,
    broker: BrokerProcess,
    settings: dict[str, str],
    *arguments: str,
    **more: str,
) -> Ran:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    given = ("--bootstrap-server", bootstrap(broker), *arguments[1:], "--command-config", str(file))
    return tools.alone(arguments[0], *given, **more)


def test_java_creates_produces_and_consumes(
    realm: Realm, kerberos_broker: BrokerProcess, tools: JavaTools, tmp_path: Path
) -> None:
    topic, settings = fresh("java"), realm.client_settings()

    def run(*arguments: str, **more: str) -> Ran:
        ran = java(tools, tmp_path, kerberos_broker, settings, *arguments, **more)
        assert ran.code == 0, ran.err
        return ran

    run("kafka-topics", "--create", "--topic", topic)
    run("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")
    consumed = run(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2",
        "--timeout-ms", "30000",
    )  # fmt: skip
    assert consumed.lines == ["one", "two"]


def test_the_rights_in_java_are_those_of_the_short_name(
    realm: Realm, kerberos_broker: BrokerProcess, tools: JavaTools, tmp_path: Path
) -> None:
    topic = fresh("rights")

    def create() -> Ran:
        bob = realm.client_settings("bob")
        return java(tools, tmp_path, kerberos_broker, bob, "kafka-topics", "--create", "--topic", topic)

    refused = create()
    assert refused.code != 0
    assert "does not have the right CREATE" in refused.out
    granted = java(
        tools, tmp_path, kerberos_broker, realm.client_settings(),
        "kafka-acls", "--add", "--allow-principal", "User:rob", "--operation", "All", "--topic", topic,
    )  # fmt: skip
    assert granted.code == 0, granted.err
    allowed = create()
    assert allowed.code == 0, allowed.out


def test_java_reports_a_service_that_the_broker_is_not(
    realm: Realm, kerberos_broker: BrokerProcess, tools: JavaTools, tmp_path: Path
) -> None:
    settings = realm.client_settings() | {"sasl.kerberos.service.name": "other"}
    refused = java(tools, tmp_path, kerberos_broker, settings, "kafka-topics", "--list")
    assert refused.code != 0
    assert "due to invalid credentials with SASL mechanism GSSAPI" in refused.out + refused.err


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_with_the_sasl_library_of_the_system(
    realm: Realm, kerberos_broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    if "sasl_gssapi" not in features:
        pytest.skip("kcat was built without GSSAPI")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    topic = fresh("kcat")
    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(realm.tables["alice"]),
        "sasl.kerberos.principal": "alice",
    }
    command = ["kcat", "-b", bootstrap(kerberos_broker), "-t", topic]
    command += [word for name, value in options.items() for word in ("-X", f"{name}={value}")]

    def run(*more: str, stdin: str = "") -> str:
        ran = subprocess.run(
            [*command, *more], input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run("-P", stdin="one\ntwo\n")
    assert run("-C", "-e", "-q").split() == ["one", "two"]


@pytest.fixture
def tickets(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ticket of alice in the cache of this process."""
    monkeypatch.setenv("KRB5CCNAME", realm.kdc.tickets("alice"))


def python_settings(broker: BrokerProcess) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }


@pytest.mark.usefixtures("tickets")
def test_kafka_python_with_the_ticket_cache(kerberos_broker: BrokerProcess) -> None:
    """It sends the name of the service as its authorization id."""
    from kafka import KafkaConsumer, KafkaProducer

    topic, settings = fresh("python"), python_settings(kerberos_broker)
    producer = KafkaProducer(**settings)
    producer.send(topic, b"one").get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **settings)
    try:
        assert next(iter(consumer)).value == b"one"
    finally:
        consumer.close()


@pytest.mark.usefixtures("tickets")
def test_aiokafka_with_the_ticket_cache(kerberos_broker: BrokerProcess) -> None:
    """It sends the name of the service as its authorization id."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic, settings = fresh("aio"), python_settings(kerberos_broker)

    async def produce_and_consume() -> bytes:
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"one")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
            record = await asyncio.wait_for(consumer.getone(), 30)
        return bytes(record.value)

    assert asyncio.run(produce_and_consume()) == b"one"


# --- Ottla's client


def own_settings(port: int, **options: str) -> ClientSettings:
    return ClientSettings.from_options(
        {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "default.api.timeout.ms": "10000",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )


def enter(settings: ClientSettings) -> None:
    """Log in and send a request; raises if the broker or the server of Kerberos refuses."""
    with Cluster(settings) as cluster:
        cluster.topics()


class KerberosKafka(KafkaPeer):
    """Apache Kafka with a listener for GSSAPI beside the plain one."""

    def __init__(self, directory: Path, realm: Realm) -> None:
        super().__init__(directory / "data")
        self.kerberos_port = free_port()
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        own = f"KERBEROS://localhost:{self.kerberos_port}"
        self.overrides = {
            "listeners": f"{plain},CONTROLLER://127.0.0.1:{self.controller_port},{own}",
            "advertised.listeners": f"{plain},{own}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.kerberos.gssapi.sasl.jaas.config": realm.jaas(),
        }


@pytest.fixture(params=["ottla", "kafka"])
def port(request: pytest.FixtureRequest) -> int:
    """The port of a broker with GSSAPI."""
    if request.param == "ottla":
        broker: BrokerProcess = request.getfixturevalue("kerberos_broker")
        return broker.port
    kafka: KerberosKafka = request.getfixturevalue("kerberos_kafka")
    return kafka.kerberos_port


@pytest.fixture(scope="module")
def kerberos_kafka(
    kafka_jars: None, realm: Realm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KerberosKafka]:
    with KerberosKafka(tmp_path_factory.mktemp("kerberos-kafka"), realm) as peer:
        assert isinstance(peer, KerberosKafka)
        yield peer


def test_our_client_with_a_key_table(realm: Realm, port: int) -> None:
    enter(own_settings(port, sasl_jaas_config=realm.jaas("alice")))
    table = str(realm.tables["alice"])
    enter(own_settings(port, sasl_kerberos_keytab=table, sasl_kerberos_principal="alice"))


def test_our_client_with_a_ticket_cache(realm: Realm, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = realm.kdc.tickets("carol/admin")
    enter(
        own_settings(port, sasl_jaas_config=f'{KERBEROS} required useTicketCache=true ticketCache="{cache}";')
    )
    with pytest.raises(AuthenticationFailed, match="No Kerberos credentials available"):
        enter(own_settings(port))
    monkeypatch.setenv("KRB5CCNAME", cache)
    enter(own_settings(port))


def test_our_client_does_not_accept_a_broker_without_the_key_of_the_service(realm: Realm, port: int) -> None:
    wrong = own_settings(port, sasl_kerberos_service_name="other", sasl_jaas_config=realm.jaas("alice"))
    with pytest.raises(AuthenticationFailed, match="GSSAPI"):
        enter(wrong)
    unknown = own_settings(port, sasl_kerberos_service_name="unknown", sasl_jaas_config=realm.jaas("alice"))
    with pytest.raises(AuthenticationFailed, match="unknown/localhost"):
        enter(unknown)


def test_our_client_with_an_old_key(realm: Realm, port: int) -> None:
    user = fresh("old")
    realm.tables[user] = realm.kdc.add(user)
    realm.kdc.change_key(user)
    with pytest.raises(AuthenticationFailed, match="Decrypt integrity check failed"):
        enter(own_settings(port, sasl_jaas_config=realm.jaas(user)))


def test_our_client_needs_the_name_of_the_service(realm: Realm) -> None:
    with pytest.raises(LocalError, match=r"sasl\.kerberos\.service\.name"):
        own_settings(1, sasl_kerberos_service_name="")
    with pytest.raises(LocalError, match="differ"):
        own_settings(1, sasl_jaas_config=realm.jaas(SERVICE, ' serviceName="other"'))
