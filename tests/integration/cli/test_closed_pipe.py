"""Commands whose output is a pipe that its reader has closed: they end quietly, all with the same exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import TIMEOUT_S, Publisher, create_topic, fresh

COMMANDS = [
    "--help",
    "--version",
    "topics --help",
    "topics list --help",
    "broker --help",
    "completion bash",
    "topics list",
    "topics list -o json",
    "topics describe TOPIC",
    "consume TOPIC",
    "consume TOPIC --follow -O start",
    "cluster info",
    "check",
    "doctor",
    "top",
    "pipelines status",
]


def run_without_reader(broker: BrokerProcess, command: str) -> subprocess.CompletedProcess[bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "ottla.cli.main", *command.split()],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap},
            check=False,
            timeout=4 * TIMEOUT_S,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_ends_quietly(broker: BrokerProcess, command: str) -> None:
    if "TOPIC" in command:
        topic = create_topic(broker.bootstrap, fresh("closed"))
        Publisher(broker.bootstrap).send(topic, [{"value": b"value"}])
        command = command.replace("TOPIC", topic)
    result = run_without_reader(broker, command)
    assert (result.returncode, result.stderr) == (0, b"")


def test_a_check_that_fails_keeps_its_exit_code(broker: BrokerProcess) -> None:
    result = run_without_reader(broker, "check --topic missing")
    assert (result.returncode, result.stderr) == (1, b"")
