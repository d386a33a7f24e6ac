"""Codec of the embedded consumer protocol."""

from __future__ import annotations

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.coordinator.group.migration.embedded_protocol import (
    by_topic_id,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from tests.support.consumer_bench import assignment_of, subscription_of
from tests.support.metadata import one_node, topic_id_of

T, GONE = topic_id_of("t"), topic_id_of("gone")


def test_a_subscription() -> None:
    said = read_subscription(subscription_of(["t"], {"t": (0, 2)}))
    assert said.topics == ["t"]
    assert by_topic_id(said.owned_partitions, one_node("t")) == {T: {0, 2}}
    assert by_topic_id(said.owned_partitions, one_node("u")) == {}


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_written_in_the_version_of_its_reader(version: int) -> None:
    data = write_assignment({T: {3, 1}, GONE: {0}}, one_node("t"), version)
    assert version_of(data) == version
    assert [(each.topic, each.partitions) for each in read_assignment(data).assigned_partitions] == [
        ("t", [1, 3])
    ]


def test_newer_versions_are_read_as_the_newest_known() -> None:
    newer = b"\x00\x09" + assignment_of({"t": (0,)})[2:]
    assert version_of(newer) == 3
    assert read_assignment(newer).assigned_partitions[0].partitions == [0]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\1\x7f"])
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_assignment(data)
