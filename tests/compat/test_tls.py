"""Kafka's tools over TLS with JKS and PKCS12 stores made by keytool, and the reload of a store by kafka-configs."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.compat.java_tools import JavaTools
from tests.support.certificates import Authority, Issued
from tests.support.tls_files import TlsFiles
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat
PHRASE = "open-sesame"
AUTHORITY = Authority()


def keytool(*arguments: object) -> None:
    subprocess.run(["keytool", *map(str, arguments), "-noprompt"], check=True, capture_output=True)


def key_store(folder: Path, name: str, issued: Issued, kind: str) -> Path:
    source, target = issued.write_pkcs12(folder / f"{name}.source", PHRASE), folder / f"{name}.{kind}"
    passwords = ["-srcstorepass", PHRASE, "-deststorepass", PHRASE]
    target.unlink(missing_ok=True)
    keytool(
        "-importkeystore", "-srckeystore", source, "-destkeystore", target, "-deststoretype", kind, *passwords
    )
    return target


class Setup:
    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.files = TlsFiles(folder, AUTHORITY, client_auth="required")
        self.own = key_store(folder, "broker", AUTHORITY.issue("broker"), kind)
        trust = folder / f"trust.{kind}"
        ca = ["-file", self.files.ca, "-alias", "ca"]
        keytool("-importcert", *ca, "-keystore", trust, "-storetype", kind, "-storepass", PHRASE)
        client = key_store(folder, "client", AUTHORITY.issue("client"), kind)
        trusted = {"ssl.truststore.location": str(trust), "ssl.truststore.password": PHRASE}
        stores = {
            "ssl.keystore.type": kind,
            "ssl.truststore.type": kind,
            "ssl.keystore.password": PHRASE,
            **trusted,
        }
        self.broker = self.files.broker(**stores, **{"ssl.keystore.location": str(self.own)})
        self.settings = folder / "client.properties"
        used = {"security.protocol": "SSL", "ssl.keystore.location": str(client), **stores}
        self.settings.write_text("".join(f"{name}={value}\n" for name, value in used.items()))
        self.tools = JavaTools()

    def run(self, tool: str, *arguments: str, stdin: str = "") -> list[str]:
        given = ["--bootstrap-server", self.broker.bootstrap, "--command-config", str(self.settings)]
        done = self.tools.alone(tool, *given, *arguments, stdin=stdin)
        assert done.code == 0, done.err
        return done.lines


@pytest.fixture(scope="module", params=["JKS", "PKCS12"])
def setup(
    request: pytest.FixtureRequest, kafka_jars: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Setup]:
    made = Setup(tmp_path_factory.mktemp("tls"), request.param)
    try:
        with made.broker:
            yield made
    finally:
        made.tools.close()


def served(broker: BrokerProcess, files: TlsFiles) -> bytes | None:
    plain = socket.create_connection(("127.0.0.1", broker.port), 30)
    with files.context().wrap_socket(plain, server_hostname="localhost") as client:
        return client.getpeercert(binary_form=True)


def test_records_of_the_console_tools(setup: Setup) -> None:
    setup.run("kafka-topics", "--create", "--topic", "java")
    setup.run("kafka-console-producer", "--topic", "java", stdin="one\ntwo\n")
    limits = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"]
    assert setup.run("kafka-console-consumer", "--topic", "java", *limits) == ["one", "two"]


def test_a_renewed_store_is_loaded_by_kafka_configs(setup: Setup) -> None:
    renewed = AUTHORITY.issue("broker")
    key_store(setup.files.path, "broker", renewed, setup.kind)
    added = f"listener.name.ssl.ssl.keystore.location={setup.own}"
    setup.run(
        "kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", added
    )
    wait_until(lambda: served(setup.broker, setup.files) == renewed.der, "the new certificate")
