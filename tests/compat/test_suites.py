"""The folder that the fixtures of client test suites use as a Kafka distribution."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla.local.ports import free_port
from tests.compat.suites import kafka_home
from tests.compat.suites.server_settings import Server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat
JAAS = """\
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="a;b" user_admin="a;b";
  org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="alice-secret";
};
"""


def _properties(folder: Path, port: int, controller: int) -> Path:
    settings = {
        "broker.id": "2",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"2@localhost:{controller}",
        "listeners": f"SASL_PLAINTEXT://0.0.0.0:{port},CONTROLLER://0.0.0.0:{controller}",
        "advertised.listeners": f"SASL_PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "GSSAPI,PLAIN,SCRAM-SHA-256",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1",
        "log.dirs": str(folder / "data"),
    }
    path = folder / "server.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    (folder / "jaas.conf").write_text(JAAS)
    return path


def test_the_scripts_start_a_server_with_the_settings_and_users_of_a_fixture(tmp_path: Path) -> None:
    kafka_home.write(tmp_path / "home", "ottla")
    scripts = tmp_path / "home" / "bin"
    port = free_port()
    properties = _properties(tmp_path, port, free_port())
    user = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
    storage = [scripts / "kafka-storage.sh", "format", "-t", "x", "-c", properties, "--add-scram", user]
    subprocess.run(storage, check=True)
    login = f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"
    settings = {
        "bootstrap.servers": f"localhost:{port}", "broker.address.family": "v4",
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice", "sasl.password": "alice-secret",
    }  # fmt: skip
    output = tmp_path / "output"
    with (
        output.open("w") as written,
        subprocess.Popen(
            [scripts / "kafka-server-start.sh", properties],
            env={**os.environ, "KAFKA_OPTS": login}, cwd=tmp_path, stdout=written,
        ) as server,
    ):  # fmt: skip
        try:
            wait_until(lambda: "creating new entry for alice" in output.read_text(), "the server")
            assert "[KafkaRaftServer nodeId=2] Kafka Server started" in output.read_text()
            assert list(AdminClient(settings).list_topics(timeout=30).brokers) == [2]
        finally:
            server.terminate()


def test_tokens_without_a_signature_are_left_out(tmp_path: Path) -> None:
    path = _properties(tmp_path, 1, 2)
    keys = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
    path.write_text(
        path.read_text().replace("GSSAPI,PLAIN", "OAUTHBEARER,PLAIN") + f"{keys}=http://localhost:3/keys\n"
    )
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    _, written, *_ = Server.read(path).arguments(f"-D{allowed}=http://localhost:3/keys")
    settings = Server.read(Path(written)).settings
    assert settings["sasl.enabled.mechanisms"] == "OAUTHBEARER,PLAIN,SCRAM-SHA-256"
    assert settings["listener.name.controller.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256"
    assert "listener.name.sasl_plaintext.sasl.enabled.mechanisms" not in settings
    assert settings[allowed] == "http://localhost:3/keys"
    assert settings["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.1,TLSv1"
