"""`ottla secure init` and `ottla up --secure`: what they create works together, and nothing secret is visible."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.admin.contexts import parse_properties
from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster_directory import ClusterDescription, on_free_ports
from tests.support.waiting import wait_until

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


def run(*arguments: object, code: int = 0) -> str:
    ran = subprocess.run(
        [*OTTLA, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secure") / "credentials"
    port = on_free_ports(ClusterDescription(3, secure=True)).port
    run("secure", "init", folder, "--port", port, "--data", folder.parent / "data")
    return folder


@pytest.fixture(scope="module")
def broker(credentials: Path) -> Iterator[BrokerProcess]:
    settings = parse_properties((credentials / "node-0" / "server.properties").read_text())
    port = int(settings["advertised.listeners"].split(",")[0].rpartition(":")[2])
    arguments = ["--config", str(credentials / "node-0" / "server.properties")]
    arguments += ["--add-scram-file", str(credentials / "add-scram")]
    listeners = {"listeners": settings["listeners"]}
    with BrokerProcess(credentials.parent / "data", listeners, port=port, arguments=arguments) as process:
        yield process


def client(credentials: Path, **more: Any) -> dict[str, Any]:
    return {**parse_properties((credentials / "admin.properties").read_text()), **more}


def test_the_administrator_produces_and_consumes(credentials: Path, broker: BrokerProcess) -> None:
    producer = Producer(client(credentials))
    producer.produce("orders", b"first")
    assert producer.flush(30) == 0
    consumer = Consumer(client(credentials, **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    (record,) = consumer.consume(1, 30)
    assert record.value() == b"first"
    consumer.close()


def test_commands_use_the_settings_of_the_administrator(credentials: Path, broker: BrokerProcess) -> None:
    run("-c", credentials / "admin.properties", "topics", "create", "payments")
    assert "payments" in run("-c", credentials / "admin.properties", "topics", "list")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.password": "wrong"},
        {"sasl.username": "stranger"},
        {"security.protocol": "PLAINTEXT"},
        {"security.protocol": "SSL"},
        {"security.protocol": "SASL_PLAINTEXT"},
    ],
    ids=["password", "user", "plaintext", "without authentication", "without TLS"],
)
def test_other_clients_are_refused(credentials: Path, broker: BrokerProcess, wrong: dict[str, str]) -> None:
    settings = {**client(credentials), **wrong, "log_level": 0}
    with pytest.raises(KafkaException):
        AdminClient(settings).list_topics(timeout=5)


def test_secrets_are_neither_in_the_process_list_nor_in_the_log_nor_readable(
    credentials: Path, broker: BrokerProcess
) -> None:
    password = client(credentials)["sasl.password"]
    command = Path(f"/proc/{broker.pid}/cmdline").read_bytes().decode()
    assert password not in command
    assert "PRIVATE KEY" not in command
    assert password not in broker.output()
    described = run("-c", credentials / "admin.properties", "-o", "json", "cluster", "nodes")
    assert password not in described
    stored = [path for path in (credentials.parent / "data").rglob("*") if path.is_file()]
    assert stored
    for path in stored:
        assert path.stat().st_mode & 0o077 == 0, path
        assert password.encode() not in path.read_bytes(), path


def test_a_folder_that_exists_is_kept(credentials: Path) -> None:
    before = (credentials / "ca.pem").read_text()
    assert "not empty" in run("secure", "init", credentials, code=2)
    assert (credentials / "ca.pem").read_text() == before


def test_a_bad_host_is_refused(tmp_path: Path) -> None:
    assert "not the name" in run("secure", "init", tmp_path / "x", "--hosts", "a b", code=2)
    assert not (tmp_path / "x").exists()


def test_up_secure_starts_three_brokers_that_only_the_administrator_can_use(tmp_path: Path) -> None:
    port = on_free_ports(ClusterDescription(3, secure=True)).port
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    data = tmp_path / "cluster"
    command = [*OTTLA, "up", "--secure", "--data", str(data), "--port", str(port), "--console-port", "0"]
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "Ready:" in output.read_text() or process.poll() is not None, "the cluster")
        assert "Ready:" in output.read_text(), output.read_text()
        settings = client(data / "secure")
        assert len(AdminClient(settings).list_topics(timeout=30).brokers) == 3
        listed = subprocess.run(
            [*OTTLA, "cluster", "nodes"], env=environment, capture_output=True, text=True, check=True
        )
        assert len(re.findall(r"127\.0\.0\.1", listed.stdout)) == 3, listed.stdout
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": settings["bootstrap.servers"], "log_level": 0}).list_topics(
                timeout=3
            )
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
