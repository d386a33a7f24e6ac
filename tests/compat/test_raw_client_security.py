"""The raw client through Apache Kafka's doors: SASL with each mechanism, with TLS and without, and how they shut."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.peers import KafkaPeer, free_port
from ottla.client.raw import AuthenticationFailed, ClientSettings, Cluster, TimedOut
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER, PASSWORD = "alice", 'se"cret=,'


class Doors(KafkaPeer):
    """Apache Kafka with a listener for each kind of security beside the plain one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "data")
        self.ports = {name: free_port() for name in ("SASLPLAIN", "SASLTLS", "TLS")}
        self.authority = make_certificate(directory)
        protocols = {"SASLPLAIN": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL", "TLS": "SSL"}
        doors = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        self.overrides = {
            "listeners": ",".join([plain, f"CONTROLLER://127.0.0.1:{self.controller_port}", *doors]),
            "advertised.listeners": ",".join([plain, *doors]),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "broker.pem"),
        }
        escaped = PASSWORD.replace('"', '\\\\"')
        for name in ("saslplain", "sasltls"):
            prefix = f"listener.name.{name}"
            self.overrides[f"{prefix}.plain.sasl.jaas.config"] = (
                f'{PLAIN_MODULE} required user_{USER}="{escaped}";'
            )
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                self.overrides[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"

    def add_user(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for future in admin.alter_user_scram_credentials([wanted]).values():
                future.result(30)

    def settings(self, door: str, **options: str) -> ClientSettings:
        return ClientSettings.from_options(
            {
                "bootstrap.servers": f"127.0.0.1:{self.ports[door]}",
                "default.api.timeout.ms": "5000",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )


def make_certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1 that is its own authority; the broker's file has the key too."""
    key, certificate = directory / "key.pem", directory / "ca.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=broker",
            ),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    (directory / "broker.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


@pytest.fixture(scope="module")
def doors(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with Doors(tmp_path_factory.mktemp("doors")) as peer:
        assert isinstance(peer, Doors)
        peer.add_user()
        yield peer


def enters(settings: ClientSettings) -> bool:
    with Cluster(settings) as cluster:
        return "first-ack" in cluster.topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_in_both_spellings(doors: Doors, mechanism: str) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    escaped = PASSWORD.replace('"', '\\"')
    jaas = f'{module} required username="{USER}" password="{escaped}";'
    java = doors.settings(
        "SASLPLAIN", security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=jaas
    )
    librdkafka = doors.settings(
        "SASLTLS",
        security_protocol="sasl_ssl",
        sasl_mechanisms=mechanism,
        sasl_username=USER,
        sasl_password=PASSWORD,
        ssl_ca_location=str(doors.authority),
    )
    # A new credential is known to the broker a moment after the controller has it.
    wait_until(lambda: enters_at_last(java), "the credential")
    assert enters(librdkafka)


def enters_at_last(settings: ClientSettings) -> bool:
    try:
        return enters(settings)
    except AuthenticationFailed:
        return False


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_reported_at_once(doors: Doors, mechanism: str) -> None:
    settings = doors.settings(
        "SASLPLAIN",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username=USER,
        sasl_password=PASSWORD[:-1],
    )
    with pytest.raises(AuthenticationFailed, match=USER):
        enters(settings)


def test_tls_trusts_only_the_authority_it_is_given(doors: Doors) -> None:
    trusted = doors.settings(
        "TLS",
        security_protocol="SSL",
        ssl_truststore_location=str(doors.authority),
        ssl_truststore_type="PEM",
    )
    assert enters(trusted)
    inline = doors.settings(
        "TLS", security_protocol="SSL", ssl_truststore_certificates=doors.authority.read_text()
    )
    assert enters(inline)
    with pytest.raises(AuthenticationFailed, match="not trusted"):
        enters(doors.settings("TLS", security_protocol="SSL"))


def test_the_wrong_door_is_named(doors: Doors) -> None:
    """A broker that does not understand hangs up, as one that is being stopped does: it is tried again for a while."""
    wrong = {
        "bootstrap.servers": doors.bootstrap,
        "security.protocol": "SSL",
        "default.api.timeout.ms": "5000",
    }
    with pytest.raises(TimedOut, match=r"security\.protocol"):
        enters(ClientSettings.from_options(wrong))
    with pytest.raises(TimedOut):
        enters(doors.settings("TLS"))
