"""The commands of a broker of the session, and topics for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import fresh
from tests.support.command_line import CommandLine

OLD_MS = 1_600_000_000_000
"""The timestamp of the first of the old records."""


@pytest.fixture
def ottla(broker: BrokerProcess, tmp_path: Path) -> CommandLine:
    return CommandLine(broker.bootstrap, tmp_path)


@pytest.fixture
def topic(ottla: CommandLine) -> str:
    """An empty topic with one partition."""
    name = fresh("cli")
    ottla.run("topics", "create", name, "-p", "1")
    return name


@pytest.fixture
def old_records(ottla: CommandLine, broker: BrokerProcess) -> str:
    """A topic with ten records in partition 0, one per second from `OLD_MS`, and none in partition 1."""
    name = fresh("cli")
    ottla.run("topics", "create", name, "-p", "2", "--config", "retention.ms=-1")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for index in range(10):
        producer.produce(name, b"value", partition=0, timestamp=OLD_MS + index * 1000)
    producer.flush()
    return name
