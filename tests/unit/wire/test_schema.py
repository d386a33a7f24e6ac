"""Declarations: version ranges, resolved fields, defaults."""

from __future__ import annotations

from typing import Annotated

import pytest

from ottla.base.errors import InvariantViolation
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.schema import F, Message, fields_of, version_range


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3+", {3, 4, 32767}, {2, 32768}), ("2-5", {2, 5}, {1, 6}), ("4", {4}, {3, 5}), ("none", set(), {0, 1})],
)
def test_version_ranges(text: str, inside: set[int], outside: set[int]) -> None:
    versions = version_range(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_the_struct_of_a_field_is_found_in_any_type() -> None:
    topics = fields_of(MetadataRequest)[0]
    assert (topics.name, topics.struct, topics.is_array) == ("topics", MetadataRequestTopic, True)
    by_name = {field.name: field for field in fields_of(FetchRequest)}
    assert by_name["replica_state"].struct is ReplicaState
    assert by_name["replica_state"].default == ReplicaState()
    assert by_name["cluster_id"].wire.tag == 0


def test_instances_share_no_default() -> None:
    one, other = MetadataRequest(), MetadataRequest()
    assert one.topics is not None
    one.topics.append(MetadataRequestTopic())
    assert other.topics == []
    assert FetchRequest().replica_state is not FetchRequest().replica_state


class Unexplained(Message):
    number: int = 0


class Contradictory(Message):
    number: Annotated[int, F("struct", "0+")] = 0


@pytest.mark.parametrize("message", [Unexplained, Contradictory])
def test_a_wrong_declaration_is_detected(message: type[Message]) -> None:
    with pytest.raises(InvariantViolation):
        fields_of(message)
