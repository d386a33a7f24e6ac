"""Offsets of queries as JSON, and places as users write them."""

from __future__ import annotations

import json

import pytest

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.spark.source.offsets import (
    AtTime,
    Committed,
    Earliest,
    Latest,
    OffsetSpec,
    RecordsBack,
    Specific,
    TimeBack,
    from_json,
    is_moving,
    parse_assignment,
    parse_offset_spec,
    parse_offsets,
    to_json,
)


def test_json_is_sorted_by_topic_and_number() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'
    assert from_json(to_json(offsets)) == offsets


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Earliest()),
        (" LATEST ", Latest()),
        ("committed", Committed()),
        ("-1000", RecordsBack(1000)),
        ("- 3", RecordsBack(3)),
        ("-10 minutes", TimeBack(600_000)),
        ("-1 hour", TimeBack(3_600_000)),
        ("-2days", TimeBack(172_800_000)),
        ('{"t":{"0":5,"1":-1}}', Specific({TopicPartition("t", 0): 5, TopicPartition("t", 1): -1})),
    ],
)
def test_places(text: str, place: OffsetSpec) -> None:
    assert parse_offset_spec("startingOffsets", text) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "first",
        "-1",
        "-2",
        "-5 fortnights",
        "[1]",
        '{"t":[0]}',
        '{"t":{"x":1}}',
        '{"t":{"0":"2"}}',
        '{"t":{"0":true}}',
        '{"t":{"0":null}}',
        '{"t":{"0":2.5}}',
        '{"t":{"0":NaN}}',
        '{"t":{"0":Infinity}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{" 0":1}}',
        '{"t":{"-1":1}}',
        '{"t":{"2147483648":1}}',
    ],
)
def test_what_is_no_place_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(LocalError, match="startingOffsets"):
        parse_offset_spec("startingOffsets", text)


def test_a_whole_number_may_have_a_point() -> None:
    """As in Spark's connector."""
    assert parse_offsets("o", '{"t":{"0":2.0}}') == {TopicPartition("t", 0): 2}
    assert parse_assignment('{"t":[1.0]}') == [TopicPartition("t", 1)]


@pytest.mark.parametrize("number", [-3, -7])
def test_below_zero_only_the_ends_have_a_meaning(number: int) -> None:
    with pytest.raises(LocalError, match=f"option endingOffsets: invalid offset {number} of t-1"):
        parse_offset_spec("endingOffsets", f'{{"t":{{"0":-2,"1":{number}}}}}')


def test_assignments() -> None:
    assert parse_assignment('{"t":[0,2]}') == [TopicPartition("t", 0), TopicPartition("t", 2)]
    assert parse_assignment('{"t":[2,0,2]}') == [TopicPartition("t", 2), TopicPartition("t", 0)]
    for wrong in (
        "{}",
        "t",
        "[0]",
        '{"t":["x"]}',
        '{"t":0}',
        '{"t":"01"}',
        '{"t":["1"]}',
        '{"t":[true]}',
        '{"t":[-1]}',
        '{"t":{"0":1}}',
        '{"t":[0],"u":""}',
    ):
        with pytest.raises(LocalError, match="assign"):
            parse_assignment(wrong)


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(LocalError, match="byTimestamp"):
        parse_offsets("byTimestamp", '{"t":{"0":"noon"}}')


def test_which_places_move() -> None:
    still: list[OffsetSpec] = [Earliest(), Specific({TopicPartition("t", 0): -2})]
    moving: list[OffsetSpec] = [Latest(), Committed(), TimeBack(1), RecordsBack(5), AtTime(1)]
    moving.append(Specific({TopicPartition("t", 0): 7, TopicPartition("t", 1): -1}))
    assert not any(map(is_moving, still))
    assert all(map(is_moving, moving))
