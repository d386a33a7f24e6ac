"""Commands whose output is a pipe that its reader has closed, or a full disk.

With a closed pipe they end quietly, all with the same exit code; with a full disk they say so.
"""

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


def run(broker: BrokerProcess, command: str, output: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *command.split()],
        stdout=output,
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap},
        check=False,
        timeout=4 * TIMEOUT_S,
    )


def run_without_reader(broker: BrokerProcess, command: str) -> subprocess.CompletedProcess[bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return run(broker, command, writer)
    finally:
        os.close(writer)


@pytest.mark.parametrize("command", ["topics list", "topics list -o json", "cluster info"])
def test_a_full_disk_is_named(broker: BrokerProcess, command: str) -> None:
    create_topic(broker.bootstrap, fresh("full"))
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        result = run(broker, command, full)
    finally:
        os.close(full)
    message = b"ottla: cannot write the output: No space left on device\n"
    assert (result.returncode, result.stderr) == (1, message)


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
