"""The commands of `ottla groups` on a real broker."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import commit_offsets, fresh
from tests.support.command_line import CommandLine


@pytest.fixture
def topic(old_records: str) -> str:
    return old_records


@pytest.fixture
def group(broker: BrokerProcess, topic: str) -> str:
    """A group without members that has read four records."""
    name = fresh("group")
    commit_offsets(broker.bootstrap, name, Position(topic, 0, 4))
    return name


def committed(ottla: CommandLine, group: str) -> dict[int, int]:
    found = ottla.json("groups", "describe", group)["partitions"]
    return {each["partition"]: each["current_offset"] for each in found}


def test_groups_are_listed_and_described_with_their_lag(ottla: CommandLine, group: str, topic: str) -> None:
    (listed,) = [each for each in ottla.json("groups", "list") if each["group"] == group]
    assert (listed["type"], listed["state"], listed["lag"]) == ("classic", "Empty", 6)
    assert group not in ottla.run("groups", "list", "--state", "stable")[0]
    assert group in ottla.run("groups", "list", "--no-lag", "--type", "classic")[0]
    described = ottla.json("groups", "describe", group)
    (partition,) = described["partitions"]
    assert (partition["topic"], partition["current_offset"], partition["log_end_offset"]) == (topic, 4, 10)
    assert partition["lag_seconds"] > 1_000_000
    text = ottla.run("groups", "describe", group)[0]
    assert "CURRENT-OFFSET  LOG-END-OFFSET  LAG" in text
    assert ottla.json("groups", "describe", group, "-t", "other")["partitions"] == []
    _, error = ottla.run("groups", "describe", "missing", code=2)
    assert "it does not exist" in error


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_listed_and_prevent_a_reset(
    ottla: CommandLine, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    name = fresh(protocol)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "group.protocol": protocol})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    (member,) = ottla.json("groups", "members", name)
    assert member["assignment"] == [f"{topic}-0", f"{topic}-1"]
    assert member["target"] == (member["assignment"] if protocol == "consumer" else None)
    _, error = ottla.run("groups", "reset", name, "--to", "end", "-t", topic, "--yes", code=2)
    assert "it has members; stop them first" in error
    ottla.run("groups", "reset", name, "--to", "end", "-t", topic, "--dry-run")
    ottla.run("groups", "delete", name, "--yes", code=2)
    consumer.close()
    assert ottla.json("groups", "members", name) == []
    ottla.run("groups", "reset", name, "--to", "end", "-t", topic, "--yes")
    assert committed(ottla, name) == {0: 10, 1: 0}


@pytest.mark.parametrize(
    ("arguments", "offset"),
    [
        (["--to", "start"], 0),
        (["--to", "end"], 10),
        (["--to", "99"], 10),
        (["--to", "-3"], 7),
        (["--to", "@2020-09-13T12:26:42"], 2),
        (["--shift", "-3"], 1),
        (["--by-duration", "1d"], 10),
    ],
)
def test_a_group_is_reset(ottla: CommandLine, group: str, arguments: list[str], offset: int) -> None:
    shown, _ = ottla.run("groups", "reset", group, *arguments, "--dry-run", "-o", "json")
    assert [(each["current_offset"], each["new_offset"]) for each in json.loads(shown)] == [(4, offset)]
    assert committed(ottla, group) == {0: 4}
    ottla.run("groups", "reset", group, *arguments, code=2)
    assert committed(ottla, group) == {0: 4}
    ottla.run("groups", "reset", group, *arguments, "--yes")
    assert committed(ottla, group) == {0: offset}


def test_an_offset_outside_the_log_is_reported(ottla: CommandLine, group: str) -> None:
    _, error = ottla.run("groups", "reset", group, "--to", "99", "--dry-run")
    assert "has no offset 99: its log starts at 0 and ends at 10; 10 is used" in error
    _, error = ottla.run("groups", "reset", group, "--shift", "-50", "--dry-run")
    assert "0 is used" in error
    _, error = ottla.run("groups", "reset", group, "--to", "3", "--dry-run")
    assert "is used" not in error


def test_a_new_group_gets_the_offsets_of_another(ottla: CommandLine, group: str) -> None:
    other = fresh("copy")
    ottla.run("groups", "reset", other, "--from-group", group, "--yes")
    assert committed(ottla, other) == {0: 4}


def test_a_reset_needs_one_target(ottla: CommandLine, group: str) -> None:
    _, error = ottla.run("groups", "reset", group, code=2)
    assert "give one of --to" in error
    _, error = ottla.run("groups", "reset", group, "--to", "end", "--shift", "1", code=2)
    assert "not --to and --shift" in error
    ottla.run("groups", "reset", group, "--to", "end", "-p", "7", "--yes", code=2)


def test_offsets_and_groups_are_deleted(ottla: CommandLine, group: str, topic: str) -> None:
    ottla.run("groups", "delete-offsets", group, "--yes", code=2)
    ottla.run("groups", "delete-offsets", group, "-t", topic, "-p", "1", "--yes", code=2)
    ottla.run("groups", "reset", group, "--to", "start", "-t", topic, "--yes")
    ottla.run("groups", "delete-offsets", group, "-t", topic, "-p", "0", "--yes")
    assert committed(ottla, group) == {1: 0}
    ottla.run("groups", "delete", group, code=2)
    ottla.run("groups", "delete", group, "--yes")
    assert group not in ottla.run("groups", "list")[0]
