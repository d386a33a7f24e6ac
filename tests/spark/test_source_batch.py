"""`spark.read.format("ottla")`: rows, schema, where reading begins and ends, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.clients import Publisher

CONNECTOR_SCHEMA = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("timestamp", "timestamp"),
    ("timestampType", "int"),
]


def test_rows_have_the_connectors_columns(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic(2)
    send(topic, [{"key": b"k0", "value": b"v0", "partition": 0, "timestamp": 1_700_000_000_123}])
    send(topic, [{"key": None, "value": b"v1", "partition": 1, "timestamp": 1_700_000_001_000}])
    send(topic, [{"key": b"k2", "value": None, "partition": 1, "timestamp": 1_700_000_002_000}])
    frame = read(subscribe=topic)
    assert frame.dtypes == CONNECTOR_SCHEMA
    rows = [tuple(row) for row in frame.selectExpr(
        "key", "value", "topic", "partition", "offset", "unix_millis(timestamp)", "timestampType"
    ).orderBy("partition", "offset").collect()]  # fmt: skip
    assert rows == [
        (b"k0", b"v0", topic, 0, 0, 1_700_000_000_123, 0),
        (None, b"v1", topic, 1, 0, 1_700_000_001_000, 0),
        (b"k2", None, topic, 1, 1, 1_700_000_002_000, 0),
    ]


def test_headers_are_a_column_when_requested(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": b"a", "headers": [("h", b"1"), ("h", None)]}, {"value": b"b"}])
    frame = read(subscribe=topic, includeHeaders="true")
    assert dict(frame.dtypes)["headers"] == "array<struct<key:string,value:binary>>"
    rows = frame.orderBy("offset").select("headers").collect()
    assert [(h.key, h.value) for h in rows[0].headers] == [("h", b"1"), ("h", None)]
    assert rows[1].headers is None


def test_columns_are_chosen_and_renamed(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": b"a"}])
    frame = read(subscribe=topic, columns="offset as place, value")
    assert frame.dtypes == [("place", "bigint"), ("value", "binary")]
    assert [tuple(row) for row in frame.collect()] == [(0, b"a")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_codecs_are_read(read: Any, broker: Any, new_topic: Any, codec: str) -> None:
    topic = new_topic()
    values = [f"{codec} {number}".encode() * 20 for number in range(500)]
    Publisher(broker.bootstrap, {"compression.type": codec, "linger.ms": 50}).send(
        topic, [{"value": value} for value in values]
    )
    rows = read(subscribe=topic, columns="value,offset").orderBy("offset").collect()
    assert [row.value for row in rows] == values


def test_offsets_bound_what_is_read(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic(2)
    send(topic, [{"value": str(number).encode(), "partition": number % 2} for number in range(20)])
    frame = read(
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 4}}),
    )
    found = sorted((row.partition, row.offset) for row in frame.collect())
    assert found == [(0, offset) for offset in range(3, 10)] + [(1, offset) for offset in range(4)]


def test_min_partitions_and_records_per_partition_cut_ranges(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": b"x"} for _ in range(100)])
    cut = read(subscribe=topic, minPartitions=4)
    assert cut.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in cut.collect()) == list(range(100))
    assert read(subscribe=topic, maxRecordsPerPartition=30).rdd.getNumPartitions() == 4


def test_a_pattern_and_an_assignment_choose_partitions(read: Any, send: Any, new_topic: Any) -> None:
    first, second = new_topic(1, prefix="pat-a"), new_topic(2, prefix="pat-a")
    send(first, [{"value": b"1"}])
    send(second, [{"value": b"2", "partition": 0}, {"value": b"3", "partition": 1}])
    by_pattern = read(subscribePattern=f"({first}|{second[:-3]}.*)")
    assert sorted(row.value for row in by_pattern.collect()) == [b"1", b"2", b"3"]
    assigned = read(assign=json.dumps({second: [1]}))
    assert [row.value for row in assigned.collect()] == [b"3"]


def test_timestamps_bound_what_is_read(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": b"x", "timestamp": 1000 + number * 10} for number in range(10)])
    frame = read(subscribe=topic, startingTimestamp=1035, endingTimestamp=1070)
    assert sorted(row.offset for row in frame.collect()) == [4, 5, 6]
    by_partition = read(subscribe=topic, startingOffsetsByTimestamp=json.dumps({topic: {"0": 1081}}))
    assert [row.offset for row in by_partition.collect()] == [9]
    late = {"subscribe": topic, "startingTimestamp": 9999}
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy"):
        read(**late).collect()
    assert read(**late, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_the_last_records_are_read(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": b"x"} for _ in range(50)])
    assert sorted(row.offset for row in read(subscribe=topic, startingOffsets="-10").collect()) == list(
        range(40, 50)
    )
    assert read(subscribe=topic, startingOffsets="-10 minutes").count() == 50


def test_an_empty_topic_gives_no_rows(read: Any, new_topic: Any) -> None:
    assert read(subscribe=new_topic(3)).collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one of"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "cannot be latest"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "cannot be earliest"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, "cannot be latest"),
        ({"subscribe": "a", "startingOffsets": "{broken"}, "expected JSON such as"),
        ({"subscribe": "a", "kafka__auto__offset__reset": "earliest"}, "startingOffsets instead"),
        ({"subscribe": "a", "kafka__enable__auto__commit": "true"}, "not supported"),
        ({"subscribe": "a", "kafka__value__deserializer": "x"}, "not supported"),
        ({"subscribe": "a", "minPartitions": "0"}, "must be positive"),
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
    ],
)
def test_what_cannot_be_is_refused(read: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        read(**options).collect()
