"""`ottla top`, `check`, `doctor` and `completion` on real brokers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Position

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.testing import Cluster
from tests.conftest import MakeBroker
from tests.support.clients import commit_offsets, fresh
from tests.support.command_line import CommandLine


@pytest.fixture
def group(ottla: CommandLine, broker: BrokerProcess) -> str:
    """A group with a lag of three old records."""
    name = fresh("lagging")
    ottla.run("topics", "create", name, "-p", "1", "--config", "retention.ms=-1")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(3):
        producer.produce(name, b"value", timestamp=1_600_000_000_000)
    producer.flush()
    commit_offsets(broker.bootstrap, name, Position(name, 0, 0))
    return name


def test_a_healthy_cluster_passes(ottla: CommandLine, group: str) -> None:
    ottla.run("check")
    ottla.run("check", "--brokers", "1", "-t", group, "-g", group, "--max-lag", "3")
    assert ottla.run("check", "--quiet") == ("", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--brokers", "2"],
        ["--topic", "missing"],
        ["--group", "missing"],
        ["--group", "GROUP", "--max-lag", "2"],
        ["--group", "GROUP", "--max-lag-seconds", "60"],
    ],
)
def test_a_condition_that_is_not_met_fails(ottla: CommandLine, group: str, arguments: list[str]) -> None:
    given = [group if each == "GROUP" else each for each in arguments]
    output, _ = ottla.run("-o", "jsonl", "check", *given, code=1)
    rows = [json.loads(line) for line in output.splitlines()]
    assert [each["result"] for each in rows].count(False) == 1
    assert ottla.run("check", "--quiet", *given, code=1)[0] == ""


def test_what_cannot_be_checked_is_refused_and_no_connection_fails(ottla: CommandLine) -> None:
    ottla.run("check", "--max-lag", "2", code=2)
    _, error = ottla.run("check", "-b", f"127.0.0.1:{free_port()}", code=1)
    assert "Connection refused" in error


def test_the_doctor_finds_a_broker_well(ottla: CommandLine) -> None:
    output, _ = ottla.run("doctor")
    assert "is a Kafka broker" in output
    assert "which it advertises" in output
    assert "A client with these settings can connect." in output


def test_the_doctor_finds_an_advertised_address_that_cannot_be_reached(
    make_broker: MakeBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--on-kafka"):
        pytest.skip("the fixture waits for an acknowledgement at the advertised address")
    port = free_port()
    broker = make_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    ottla = CommandLine(broker.bootstrap, tmp_path)
    output, _ = ottla.run("-o", "json", "doctor", code=1)
    (failed,) = [each for each in json.loads(output) if each["status"] == "failed"]
    assert failed["step"] == "advertised"
    assert f"advertises 127.0.0.1:{port}" in failed["description"]
    assert "set advertised.listeners" in failed["hint"]


def test_the_doctor_finds_wrong_security_settings(ottla: CommandLine) -> None:
    output, _ = ottla.run("doctor", "-X", "security.protocol=SSL", code=1)
    assert "expects no TLS" in output


def test_the_doctor_recognizes_the_listener_of_a_controller(tmp_path: Path) -> None:
    with Cluster(1, proxies=False) as cluster:
        ottla = CommandLine(cluster.controller_address(0), tmp_path)
        output, _ = ottla.run("-o", "json", "doctor", code=1)
    (failed,) = [each for each in json.loads(output) if each["status"] == "failed"]
    assert "the listener of a controller" in failed["description"]
    assert "the port of a broker" in failed["hint"]


def test_top_shows_topics_and_groups_with_rates(ottla: CommandLine, group: str) -> None:
    found = ottla.json("top", "--every", "1ms", "--rows", "1000")
    (topic,) = [each for each in found["topics"] if each["topic"] == group]
    assert (topic["offsets"], topic["offsets_per_s"]) == (3, 0.0)
    (listed,) = [each for each in found["groups"] if each["group"] == group]
    assert (listed["lag"], listed["offsets_per_s"], listed["catches_up_s"]) == (3, 0.0, None)
    text, _ = ottla.run("top", "--every", "1ms", "--count", "2", "--rows", "1000")
    assert text.count("OFFSETS/S") == 4
    ottla.run("top", "--every", "0s", code=2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell(ottla: CommandLine, shell: str) -> None:
    script, _ = ottla.run("completion", shell)
    assert "_OTTLA_COMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_an_unknown_shell_is_refused(ottla: CommandLine) -> None:
    ottla.run("completion", "ksh", code=2)
