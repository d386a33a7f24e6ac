"""Secrets with a recognizable text are used everywhere; they must be found nowhere but in the files of the operator."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.ports import free_ports
from tests.support.certificates import Authority
from tests.support.sasl import MODULES

CANARY = "canary-7d1f"
STORE, PLAIN, SCRAM, TOKENS = (f"{CANARY}-{each}" for each in ("store", "plain", "scram", "tokens"))


@dataclass(frozen=True)
class Secured:
    """A broker that was configured with canaries."""

    process: BrokerProcess
    authority: Path
    metrics_port: int

    def client(self, mechanism: str, password: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self.process.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "admin",
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
            "log_level": 0,
        }


def configuration(folder: Path, port: int, store: str = STORE) -> Path:
    """The settings of a broker, with secrets of all kinds, in a file."""
    authority = Authority()
    (folder / "ca.pem").write_text(authority.pem)
    authority.issue("node", hosts=["127.0.0.1"]).write_pkcs12(folder / "keys.p12", STORE)
    users = f'username="admin" password="{PLAIN}" user_admin="{PLAIN}"'
    settings = {
        "listeners": f"CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
        "ssl.keystore.location": str(folder / "keys.p12"),
        "ssl.keystore.password": store,
        "ssl.key.password": store,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "delegation.token.secret.key": TOKENS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    (folder / "users").write_text(f"SCRAM-SHA-256=[name=admin,password={SCRAM}]\n")
    return path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("canary")
    port, metrics_port = free_ports(2)
    arguments = ["--config", str(configuration(folder, port)), "--add-scram-file", str(folder / "users")]
    arguments += ["--metrics-port", str(metrics_port)]
    listeners = {"listeners": f"CLIENTS://127.0.0.1:{port}"}
    with BrokerProcess(folder / "data", listeners, port=port, arguments=arguments) as process:
        yield Secured(process, folder / "ca.pem", metrics_port)


@pytest.fixture(scope="module")
def used(secured: Secured) -> Secured:
    """The broker after successful and failed logins and a request for all settings."""
    for mechanism, password in (("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM)):
        producer = Producer(secured.client(mechanism, password))
        producer.produce("orders", b"value")
        assert producer.flush(30) == 0
        with pytest.raises(KafkaException):
            AdminClient(secured.client(mechanism, f"{password}-wrong")).list_topics(timeout=3)
    return secured


def test_no_secret_is_described(used: Secured) -> None:
    admin = AdminClient(used.client("PLAIN", PLAIN))
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["ssl.keystore.password"].is_sensitive
    assert described["ssl.keystore.location"].value is not None
    assert [each for each in described.values() if CANARY in str(each.value)] == []


def test_no_secret_is_logged(used: Secured) -> None:
    output = used.process.output()
    assert "ready" in output
    assert CANARY not in output


def test_no_secret_is_in_the_process_list(used: Secured) -> None:
    process = Path(f"/proc/{used.process.pid}")
    assert b"server.properties" in (process / "cmdline").read_bytes()
    assert CANARY.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


def test_no_secret_is_a_metric(used: Secured) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{used.metrics_port}/metrics", timeout=30) as response:
        text = response.read().decode()
    assert "kafka_server" in text
    assert CANARY not in text


def test_no_secret_is_stored(used: Secured) -> None:
    files = [path for path in used.process.data.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_no_secret_is_in_the_report_of_a_failed_start(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    path = configuration(tmp_path, port, store=f"{STORE}-wrong")
    process = BrokerProcess(
        tmp_path / "data",
        {"listeners": f"CLIENTS://127.0.0.1:{port}"},
        port=port,
        arguments=["--config", str(path)],
    )
    with pytest.raises(BrokerNotStarted, match="keystore") as failure:
        process.start()
    assert CANARY not in str(failure.value)
