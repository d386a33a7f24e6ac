"""The commands of `ottla topics` on a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Position

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.integration.cli.conftest import OLD_MS
from tests.support.clients import fresh
from tests.support.command_line import CommandLine


@pytest.fixture
def topic(old_records: str) -> str:
    return old_records


def test_topics_are_listed_and_described(ottla: CommandLine, topic: str) -> None:
    (listed,) = [each for each in ottla.json("topics", "list") if each["topic"] == topic]
    assert (listed["partitions"], listed["offsets"], listed["last_written_ms"]) == (2, 10, OLD_MS + 9000)
    described = ottla.json("topics", "describe", topic)
    assert described["configs"] == {"retention.ms": "-1"}
    assert [each["end_offset"] for each in described["partitions"]] == [10, 0]
    text, _ = ottla.run("topics", "describe", topic)
    assert "2020-09-13T12:26:49.000Z" in text
    assert "retention.ms=-1" in text
    lines = ottla.run("topics", "list", "-o", "csv")[0].splitlines()
    assert lines[0].startswith("topic,partitions,replication_factor,offsets,bytes")


def test_global_options_are_accepted_before_and_after_the_command(ottla: CommandLine, topic: str) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    _, error = ottla.run("-b", nowhere, "topics", "list", code=1)
    assert f"cannot connect to {nowhere}" in error
    assert "Connection refused" in error
    ottla.run("-b", nowhere, "topics", "describe", topic, "-b", ottla.bootstrap)
    ottla.run("-o", "yaml", "topics", "list", code=2)
    ottla.run("topics", "list", "-X", "security.protocol=none", code=2)


def test_a_topic_is_created_once(ottla: CommandLine, topic: str) -> None:
    _, error = ottla.run("topics", "create", topic, code=2)
    assert "TOPIC_ALREADY_EXISTS" in error
    assert "exists" in ottla.run("topics", "create", topic, "--if-not-exists")[0]
    other = fresh("other")
    ottla.run("topics", "create", other, "--dry-run")
    assert other not in ottla.run("topics", "list")[0]


def test_a_topic_is_deleted_after_confirmation(ottla: CommandLine, topic: str) -> None:
    _, error = ottla.run("topics", "delete", topic, code=2)
    assert "--yes" in error
    ottla.run("topics", "delete", topic, "--dry-run")
    assert ottla.json("topics", "describe", topic)["topic"] == topic
    ottla.run("topics", "delete", topic, "--yes")
    _, error = ottla.run("topics", "describe", topic, code=2)
    assert "it does not exist" in error
    ottla.run("topics", "delete", topic, "--yes", code=2)
    ottla.run("topics", "delete", topic, "--yes", "--if-exists")


def test_a_topic_grows(ottla: CommandLine, topic: str) -> None:
    ottla.run("topics", "grow", topic, "--to", "4", "--yes")
    assert len(ottla.json("topics", "describe", topic)["partitions"]) == 4
    ottla.run("topics", "grow", topic, "--to", "4", "--yes")
    _, error = ottla.run("topics", "grow", topic, "--to", "3", "--yes", code=2)
    assert "INVALID_PARTITIONS" in error


def test_settings_are_shown_and_changed(ottla: CommandLine, topic: str) -> None:
    def own(*arguments: str) -> dict[str, str]:
        found = ottla.json("topics", "configs", topic, *arguments)
        return {each["name"]: each["value"] for each in found if each["source"] == "topic"}

    assert own() == {"retention.ms": "-1"}
    assert own("--set", "segment.ms=2000", "--delete", "retention.ms") == {"segment.ms": "2000"}
    assert own("--set", "segment.ms=3000", "--dry-run") == {"segment.ms": "2000"}
    assert len(ottla.json("topics", "configs", topic, "--all")) > 20
    ottla.run("topics", "configs", topic, "--set", "segment.ms=x", code=2)


def test_offsets_of_positions(ottla: CommandLine, topic: str) -> None:
    def at(position: str) -> list[tuple[int, int | None]]:
        found = ottla.json("topics", "offsets", topic, "--at", position)
        return [(each["offset"], each["timestamp_ms"]) for each in found]

    assert at("start") == [(0, OLD_MS), (0, None)]
    assert at("end") == [(10, None), (0, None)]
    assert at("-3") == [(7, OLD_MS + 7000), (0, None)]
    assert at("@2020-09-13T12:26:44") == [(4, OLD_MS + 4000), (0, None)]
    _, error = ottla.run("topics", "offsets", topic, "--at", "yesterday", code=2)
    assert "is not a position" in error


def test_records_are_trimmed(ottla: CommandLine, topic: str) -> None:
    def start() -> int:
        start: int = ottla.json("topics", "describe", topic)["partitions"][0]["start_offset"]
        return start

    shown, _ = ottla.run(
        "-o", "json", "topics", "trim", topic, "--before", "@2020-09-13T12:26:44", "--dry-run"
    )
    assert [each["deleted"] for each in json.loads(shown)] == [4, 0]
    assert start() == 0
    ottla.run("topics", "trim", topic, "--before", "@2020-09-13T12:26:44", "--yes")
    assert start() == 4
    ottla.run("topics", "trim", topic, "--before", "6", "--partition", "0", "--yes")
    assert start() == 6
    ottla.run("topics", "trim", topic, "--before", "99", "--partition", "0", "--yes", code=2)
    ottla.run("topics", "trim", topic, "--before", "end", "--partition", "7", "--yes", code=2)


def test_the_installed_program_reports_an_unknown_topic(broker: BrokerProcess) -> None:
    program = Path(sys.executable).with_name("ottla")
    command = [str(program), "-b", broker.bootstrap, "topics", "describe", "missing"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ottla: topic missing: UNKNOWN_TOPIC_OR_PARTITION (it does not exist)\n"


def test_names_of_topics_are_completed(broker: BrokerProcess, topic: str) -> None:
    program = Path(sys.executable).with_name("ottla")

    def complete(line: str) -> list[str]:
        environment = {
            **os.environ,
            "OTTLA_BOOTSTRAP": broker.bootstrap,
            "_OTTLA_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        result = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
        return result.stdout.split()

    assert complete(f"ottla topics describe {topic[:-2]}") == [topic]
    assert complete(f"ottla topics describe -b 127.0.0.1:{free_port()} {topic[:-2]}") == []
    assert complete("ottla top") == ["topics", "top"]


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """All committed records of a topic by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Position(topic, index, 0) for index in (0, 1)])
    found: dict[int, list[tuple[object, ...]]] = {0: [], 1: []}
    at_end: set[int] = set()
    while len(at_end) < 2:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            at_end.add(message.partition())
            continue
        found[message.partition()].append(
            (message.key(), message.value(), message.headers(), message.timestamp()[1])
        )
    consumer.close()
    return found


def test_a_topic_is_cloned_with_everything_but_aborted_records(
    ottla: CommandLine, broker: BrokerProcess, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("clone")})
    producer.init_transactions()
    for commit in (True, False, True):
        producer.begin_transaction()
        producer.produce(
            topic,
            b"new" if commit else b"aborted",
            b"key",
            partition=1,
            headers={"h": b"1"},
            timestamp=OLD_MS,
        )
        producer.produce(topic, None, b"deleted", partition=1, timestamp=OLD_MS + 1)
        producer.commit_transaction() if commit else producer.abort_transaction()
    copy = fresh("copy")
    result = ottla.json("topics", "clone", topic, copy)
    assert result["records"] == 14
    original = read_all(broker.bootstrap, topic)
    assert [len(each) for each in original.values()] == [10, 4]
    assert read_all(broker.bootstrap, copy) == original
    assert ottla.json("topics", "describe", copy)["configs"] == {"retention.ms": "-1"}
    _, error = ottla.run("topics", "clone", topic, copy, code=2)
    assert "--append" in error
    ottla.run("topics", "clone", topic, copy, "--append", "--range", "99", code=2)
    ottla.run("topics", "clone", topic, copy, "--append", "--range", "-1")
    assert len(read_all(broker.bootstrap, copy)[0]) == 11
    before = read_all(broker.bootstrap, copy)
    ottla.run("topics", "clone", topic, copy, "--append", "--range", "start:99")
    after = read_all(broker.bootstrap, copy)
    assert [len(after[each]) - len(before[each]) for each in sorted(after)] == [10, 4], "up to the end"
    ottla.run("topics", "clone", topic, topic, code=2)
    ottla.run("topics", "clone", "missing", fresh("copy"), code=2)
