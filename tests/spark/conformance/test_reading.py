"""Batch reading: schema, rows, which partitions, where reading begins and ends, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.spark.conformance.columns import Column, values_of

MOMENT_MS = 1_700_000_000_123
SCHEMA = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def shape(frame: Any) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def test_the_schema_is_the_connectors(column: Column) -> None:
    topic = column.topic()
    assert shape(column.read(subscribe=topic)) == SCHEMA
    assert shape(column.read(subscribe=topic, includeHeaders="true")) == [*SCHEMA, HEADERS]


def test_a_row_holds_all_of_a_record(column: Column) -> None:
    topic = column.topic()
    headers = [("trace", b"\x00\xff"), ("trace", b""), ("none", None)]
    column.send(
        topic,
        [
            {"key": b"k\x00", "value": b"v\xff", "headers": headers, "timestamp": MOMENT_MS, "partition": 0},
            {"key": None, "value": None, "timestamp": MOMENT_MS + 1, "partition": 0},
            {"key": b"", "value": b"", "timestamp": MOMENT_MS + 2, "partition": 0},
        ],
    )
    first, second, third = column.read(subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k\x00", b"v\xff")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    stamp = first.timestamp.replace(tzinfo=datetime.now().astimezone().tzinfo)
    assert stamp.astimezone(UTC) == datetime.fromtimestamp(MOMENT_MS / 1000, UTC)
    found = [(header.key, header.value and bytes(header.value)) for header in first.headers]
    assert found == [("trace", b"\x00\xff"), ("trace", bytearray()), ("none", None)]
    assert (second.key, second.value, second.offset) == (None, None, 1)
    assert (third.key, third.value, third.headers) == (bytearray(), bytearray(), None)


def test_timestamps_of_brokers_and_producers_are_distinguished(column: Column) -> None:
    topic = column.topic(message_timestamp_type="LogAppendTime")
    column.publish(topic, ["now"], timestamp=MOMENT_MS)
    row = column.read(subscribe=topic).selectExpr("timestampType", "timestamp").first()
    assert row.timestampType == 1
    assert row.timestamp.year > 2024


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(column: Column, codec: str) -> None:
    topic = column.topic()
    values = [f"{number} " + "text " * 50 for number in range(200)]
    column.send(topic, [{"value": v, "partition": 0} for v in values], **{"compression.type": codec})
    assert values_of(column.read(subscribe=topic)) == values


def test_several_topics_and_all_their_partitions(column: Column) -> None:
    one, two = sorted([column.topic(2), column.topic(1)])
    column.publish(one, ["a"], partition=0)
    column.publish(two, ["c"], partition=0)
    assert values_of(column.read(subscribe=f"{one}, {two}")) == ["a", "c"]
    assert column.read(subscribe=f"{one},{two}").rdd.getNumPartitions() <= 3


def test_topics_by_pattern(column: Column) -> None:
    inside, outside = column.topic(name="pattern-in"), column.topic(name="pattern-out")
    column.publish(inside, ["in"])
    column.publish(outside, ["out"])
    unique = inside.removeprefix("pattern-in")
    assert values_of(column.read(subscribePattern=f"pattern-.*{unique}")) == ["in"]
    assert values_of(column.read(subscribePattern=f"tern-in{unique[:-1]}")) == ["in"], "anywhere in the name"
    assert values_of(column.read(subscribePattern=f"^tern-in{unique}")) == []


def test_partitions_by_assignment(column: Column) -> None:
    topic = column.topic(3)
    for partition in range(3):
        column.publish(topic, [f"p{partition}"], partition=partition)
    assert values_of(column.read(assign={topic: [0, 2]})) == ["p0", "p2"]


def test_an_empty_topic_has_no_rows(column: Column) -> None:
    assert column.read(subscribe=column.topic(2)).count() == 0


def test_option_names_are_read_in_any_case(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 4))
    frame = column.read(SUBSCRIBE=topic, startingoffsets={topic: {"0": 1}}, ENDINGOFFSETS={topic: {"0": 3}})
    assert values_of(frame) == ["1", "2"]


def test_limits_of_streams_mean_nothing_in_a_batch(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, ["a"])
    for limit in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        assert values_of(column.read(subscribe=topic, **{limit: "junk"})) == ["a"]


def test_a_temporary_view(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 4))
    column.spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW conform USING {column.format} "
        f"OPTIONS (kafka.bootstrap.servers '{column.bootstrap}', subscribe '{topic}')"
    )
    assert column.spark.sql("SELECT max(offset) FROM conform").first()[0] == 3


def test_offsets_say_where_to_begin_and_end(column: Column) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.publish(topic, numbers(0, 6), partition=partition)
    begin, end = {topic: {"0": 2, "1": -2}}, {topic: {"0": -1, "1": 3}}
    frame = column.read(subscribe=topic, startingOffsets=begin, endingOffsets=end)
    assert values_of(frame) == [*numbers(2, 6), *numbers(0, 3)]


def test_one_timestamp_selects_start_and_end(column: Column) -> None:
    topic = column.topic()
    column.send(topic, [{"value": str(n), "timestamp": MOMENT_MS + 10 * n, "partition": 0} for n in range(8)])
    frame = column.read(subscribe=topic, startingTimestamp=MOMENT_MS + 15, endingTimestamp=MOMENT_MS + 60)
    assert values_of(frame) == numbers(2, 6)


def test_timestamps_by_partition_say_where_to_begin_and_end(column: Column) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.send(
            topic,
            [{"value": str(n), "timestamp": MOMENT_MS + n, "partition": partition} for n in range(5)],
        )
    frame = column.read(
        subscribe=topic,
        startingOffsetsByTimestamp={topic: {"0": MOMENT_MS + 3, "1": MOMENT_MS}},
        endingOffsetsByTimestamp={topic: {"0": MOMENT_MS + 99, "1": MOMENT_MS + 2}},
    )
    assert values_of(frame) == ["3", "4", "0", "1"]


def test_timestamps_that_stand_for_the_ends(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 3), timestamp=MOMENT_MS)
    assert values_of(column.read(subscribe=topic, startingTimestamp="-2", endingTimestamp="-1")) == numbers(
        0, 3
    )
    assert column.read(subscribe=topic, startingTimestamp="-1").count() == 0


def test_a_timestamp_after_all_records(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, ["early"], timestamp=MOMENT_MS)
    late = {"subscribe": topic, "startingTimestamp": MOMENT_MS + 1}
    with pytest.raises(Exception, match=r"(?is)no (offset matched|record of).*timestamp"):
        column.read(**late).count()
    assert column.read(**late, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_aborted_records_are_read_only_by_read_uncommitted(column: Column) -> None:
    topic = column.topic()
    column.transaction(topic, ["kept"], commit=True)
    column.transaction(topic, ["aborted"], commit=False)
    column.transaction(topic, ["kept too"], commit=True)
    assert values_of(column.read(subscribe=topic)) == ["kept", "aborted", "kept too"]
    committed = column.read(subscribe=topic, kafka__isolation__level="read_committed")
    assert values_of(committed) == ["kept", "kept too"]


def test_a_range_that_ends_in_markers_is_no_data_loss(column: Column) -> None:
    topic = column.topic()
    column.transaction(topic, ["a", "b"], commit=True)
    frame = column.read(
        subscribe=topic, startingOffsets={topic: {"0": 2}}, kafka__isolation__level="read_committed"
    )
    assert frame.count() == 0


def test_deleted_records_in_the_wanted_range(column: Column) -> None:
    topic = column.topic()
    column.publish(topic, numbers(0, 10))
    column.delete_below(topic, 4)
    wanted = {"subscribe": topic, "startingOffsets": {topic: {"0": 2}}}
    with pytest.raises(Exception, match=r"(?i)data may have been lost"):
        column.read(**wanted).count()
    assert values_of(column.read(**wanted, failOnDataLoss="false")) == numbers(4, 10)
    assert values_of(column.read(subscribe=topic)) == numbers(4, 10)


def test_partitions_are_split_when_more_are_wanted(column: Column) -> None:
    topic = column.topic(2)
    for partition in range(2):
        column.publish(topic, numbers(0, 100), partition=partition)
    frame = column.read(subscribe=topic, minPartitions="6")
    assert frame.rdd.getNumPartitions() >= 6
    assert values_of(frame) == numbers(0, 100) * 2


def test_small_partitions_are_left_whole_when_large_ones_are_split(column: Column) -> None:
    topic = column.topic(3)
    for partition, size in enumerate((1000, 10, 1)):
        column.publish(topic, numbers(0, size), partition=partition)
    for wanted in (4, 7, 20):
        assert column.read(subscribe=topic, minPartitions=wanted).rdd.getNumPartitions() == wanted
    both = column.read(subscribe=topic, minPartitions="9", maxRecordsPerPartition="300")
    assert both.rdd.getNumPartitions() == 10


@pytest.mark.ours
def test_partitions_are_split_when_they_are_too_long(column: Column) -> None:
    topic = column.topic(1)
    column.publish(topic, numbers(0, 100))
    frame = column.read(subscribe=topic, maxRecordsPerPartition="30")
    assert frame.rdd.getNumPartitions() == 4
    assert values_of(frame) == numbers(0, 100)


def test_records_larger_than_a_fetch_arrive(column: Column) -> None:
    topic = column.topic()
    values = ["x" * 50_000, "y" * 90_000]
    column.publish(topic, values)
    frame = column.read(
        subscribe=topic, kafka__max__partition__fetch__bytes="1000", kafka__fetch__max__bytes="1000"
    )
    assert values_of(frame) == values


REFUSED: list[tuple[str, Callable[[str], dict[str, object]], str]] = [
    ("no-topics", lambda topic: {}, "subscribe"),
    ("two-ways", lambda topic: {"subscribe": topic, "subscribePattern": topic}, "subscribe"),
    ("empty-subscribe", lambda topic: {"subscribe": ""}, "subscribe|topic"),
    ("empty-pattern", lambda topic: {"subscribePattern": ""}, "pattern"),
    ("assign-no-json", lambda topic: {"assign": "all"}, "assign|json"),
    ("assign-text", lambda topic: {"assign": {topic: "0"}}, "expected .*topicA"),
    ("assign-quoted", lambda topic: {"assign": {topic: ["0"]}}, "expected .*topicA"),
    ("begin-latest", lambda topic: {"subscribe": topic, "startingOffsets": "latest"}, "latest"),
    (
        "begin-latest-of-one",
        lambda topic: {"subscribe": topic, "startingOffsets": {topic: {"0": -1}}},
        "latest",
    ),
    ("end-earliest", lambda topic: {"subscribe": topic, "endingOffsets": "earliest"}, "earliest"),
    (
        "end-earliest-of-one",
        lambda topic: {"subscribe": topic, "endingOffsets": {topic: {"0": -2}}},
        "earliest",
    ),
    ("offsets-no-json", lambda topic: {"subscribe": topic, "startingOffsets": "sometime"}, "sometime"),
    *(
        (
            f"offsets-{name}",
            lambda topic, wrong=wrong: {"subscribe": topic, "startingOffsets": {topic: wrong}},
            "expected .*topicA",
        )
        for name, wrong in (("quoted", {"0": "0"}), ("true", {"0": True}), ("blank", {" 0": 0}))
    ),
    (
        "begin-below",
        lambda topic: {"subscribe": topic, "startingOffsets": {topic: {"0": -3}}},
        "-3 (does not equal|of .* negative values)",
    ),
    (
        "end-below",
        lambda topic: {"subscribe": topic, "endingOffsets": {topic: {"0": -7}}},
        "-7 (does not equal|of .* negative values)",
    ),
    (
        "offsets-of-another",
        lambda topic: {"subscribe": topic, "startingOffsets": {"other": {"0": 1}}},
        "partitions",
    ),
    (
        "offsets-extra",
        lambda topic: {"subscribe": topic, "startingOffsets": {topic: {"0": 0, "7": 0}}},
        "partitions",
    ),
    (
        "begin-behind-the-end",
        lambda topic: {
            "subscribe": topic,
            "startingOffsets": {topic: {"0": 3}},
            "endingOffsets": {topic: {"0": 2}},
        },
        "greater than|is after the ending offset",
    ),
    (
        "begin-behind-the-last",
        lambda topic: {"subscribe": topic, "startingOffsets": {topic: {"0": 3}}},
        "greater than|is after the ending offset",
    ),
    (
        "auto-reset",
        lambda topic: {"subscribe": topic, "kafka__auto__offset__reset": "earliest"},
        "auto.offset.reset",
    ),
    (
        "auto-commit",
        lambda topic: {"subscribe": topic, "kafka__enable__auto__commit": "true"},
        "enable.auto.commit",
    ),
    (
        "key-deserializer",
        lambda topic: {"subscribe": topic, "kafka__key__deserializer": "X"},
        "key.deserializer",
    ),
    (
        "value-deserializer",
        lambda topic: {"subscribe": topic, "kafka__value__deserializer": "X"},
        "value.deserializer",
    ),
    (
        "interceptors",
        lambda topic: {"subscribe": topic, "kafka__interceptor__classes": "X"},
        "interceptor.classes",
    ),
    ("no-partitions-min", lambda topic: {"subscribe": topic, "minPartitions": "0"}, "minPartitions"),
    (
        "strategy",
        lambda topic: {"subscribe": topic, "startingOffsetsByTimestampStrategy": "guess"},
        "guess",
    ),
]


@pytest.mark.parametrize(("options", "word"), [pytest.param(o, w, id=name) for name, o, w in REFUSED])
def test_what_a_read_cannot_mean_is_refused(
    column: Column, options: Callable[[str], dict[str, object]], word: str
) -> None:
    topic = column.topic()
    with pytest.raises(Exception, match=f"(?i){word}"):
        column.read(**options(topic)).count()


def test_a_missing_topic_is_an_error(column: Column) -> None:
    with pytest.raises(Exception, match=r"(?i)unknown|not exist|no topic|does not host"):
        column.read(subscribe="no-such-topic-here").count()


def test_a_read_needs_the_clusters_address(column: Column) -> None:
    with pytest.raises(Exception, match=r"bootstrap\.servers"):
        column.spark.read.format(column.format).option("subscribe", "any").load().count()
