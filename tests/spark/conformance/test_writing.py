"""Batch writing: which columns become what, which topic and partition a row goes to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.conformance.columns import Column, values_of
from tests.support.clients import fresh

JAVA_PLACES = {"Canada vs USA": 4, "France vs Spain": 1, "a": 4, "b": 2, "": 3}
"""Where the Java client puts these keys among six partitions."""


def test_values_alone(column: Column) -> None:
    topic = column.topic()
    column.write(column.frame([("one",), ("two",)], "value string"), topic=topic)
    assert [(m.key(), m.value()) for m in column.stored(topic)] == [(None, b"one"), (None, b"two")]


def test_a_topic_that_is_not_there_is_made(column: Column) -> None:
    topic = fresh("made-by-itself")
    column.write(column.frame([("one",)], "value string"), topic=topic)
    assert [m.value() for m in column.stored(topic)] == [b"one"]


def test_keys_values_and_headers_as_they_are(column: Column) -> None:
    topic = column.topic()
    rows = [
        (b"\x00", b"\xff", [("a", b"1"), ("a", None)]),
        (None, None, None),
        (b"", b"", []),
    ]
    frame = column.frame(rows, "key binary, value binary, headers array<struct<key:string,value:binary>>")
    column.write(frame, topic=topic, includeHeaders="true")
    found = [(m.key(), m.value(), m.headers() or []) for m in column.stored(topic)]
    assert found[0] == (b"\x00", b"\xff", [("a", b"1"), ("a", None)])
    assert found[1] == (None, None, [])
    assert found[2] == (b"", b"", [])


def test_strings_are_written_as_utf_8(column: Column) -> None:
    topic = column.topic()
    column.write(column.frame([("clé", "größe")], "key string, value string"), topic=topic)
    (message,) = column.stored(topic)
    assert (message.key(), message.value()) == ("clé".encode(), "größe".encode())


def test_the_topic_of_each_row(column: Column) -> None:
    one, two = column.topic(), column.topic()
    column.write(column.frame([(one, "1"), (two, "2"), (one, "3")], "topic string, value string"))
    assert [m.value() for m in column.stored(one)] == [b"1", b"3"]
    assert [m.value() for m in column.stored(two)] == [b"2"]


def test_the_topic_option_overrides_the_column(column: Column) -> None:
    one, two = column.topic(), column.topic()
    column.write(column.frame([(one, "x")], "topic string, value string"), topic=two)
    assert column.stored(one) == []
    assert [m.value() for m in column.stored(two)] == [b"x"]


def test_the_partition_of_each_row(column: Column) -> None:
    topic = column.topic(3)
    rows = [("same key", "a", 2), ("same key", "b", 0), (None, "c", 2)]
    column.write(column.frame(rows, "key string, value string, partition int"), topic=topic)
    found = [[m.value() for m in column.stored(topic, partition)] for partition in range(3)]
    assert found == [[b"b"], [], [b"a", b"c"]]


def test_keys_are_placed_as_the_java_client_places_them(column: Column) -> None:
    topic = column.topic(6)
    frame = column.frame([(key, key) for key in JAVA_PLACES], "key string, value string")
    column.write(frame, topic=topic)
    found = {m.key().decode(): partition for partition in range(6) for m in column.stored(topic, partition)}
    assert found == JAVA_PLACES


def test_rows_of_one_key_keep_their_order(column: Column) -> None:
    topic = column.topic(3)
    rows = [(f"match {number % 7}", str(number)) for number in range(2000)]
    column.write(column.frame(rows, "key string, value string"), topic=topic)
    seen: dict[bytes, list[int]] = {}
    for partition in range(3):
        for message in column.stored(topic, partition):
            seen.setdefault(message.key(), []).append(int(message.value()))
    assert sum(map(len, seen.values())) == len(rows)
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_rows_without_a_key_are_spread(column: Column) -> None:
    topic = column.topic(4)
    frame = column.spark.range(0, 20_000, 1, 4).selectExpr("repeat(string(id), 20) AS value")
    column.write(frame, topic=topic)
    counts = [len(column.stored(topic, partition)) for partition in range(4)]
    assert sum(counts) == 20_000
    assert sum(count > 0 for count in counts) >= 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_compressed_is_read_again(column: Column, codec: str) -> None:
    topic = column.topic()
    values = [f"{number} " + "text " * 20 for number in range(500)]
    frame = column.frame([(value,) for value in values], "value string")
    column.write(frame, topic=topic, kafka__compression__type=codec)
    assert [m.value().decode() for m in column.stored(topic)] == values
    assert values_of(column.read(subscribe=topic)) == values


def test_writing_twice_appends_twice(column: Column) -> None:
    topic = column.topic()
    for _ in range(2):
        column.write(column.frame([("again",)], "value string"), topic=topic)
    assert values_of(column.read(subscribe=topic)) == ["again", "again"]


def test_no_rows_write_nothing(column: Column) -> None:
    topic = column.topic()
    column.write(column.frame([], "value string"), topic=topic)
    assert column.stored(topic) == []


def test_a_copy_of_a_topic_is_the_topic(column: Column) -> None:
    source, target = column.topic(3), column.topic(3)
    column.send(source, [{"key": f"k{n}", "value": f"v{n}", "partition": n % 3} for n in range(300)])
    column.write(column.read(subscribe=source).select("key", "value", "partition"), topic=target)
    for partition in range(3):
        assert [(m.key(), m.value()) for m in column.stored(target, partition)] == [
            (m.key(), m.value()) for m in column.stored(source, partition)
        ]


REFUSED: list[tuple[str, str, list[tuple[Any, ...]], dict[str, object], str]] = [
    ("no-topic", "value string", [("v",)], {}, "topic"),
    ("no-value", "key string", [("k",)], {"topic": "t"}, "value"),
    ("value-a-number", "value int", [(1,)], {"topic": "t"}, "value"),
    ("key-a-number", "key int, value string", [(1, "v")], {"topic": "t"}, "key"),
    ("topic-a-number", "topic int, value string", [(1, "v")], {}, "topic"),
    ("partition-a-text", "partition string, value string", [("0", "v")], {"topic": "t"}, "partition"),
    ("headers-a-text", "headers string, value string", [("h", "v")], {"topic": "t"}, "headers"),
    (
        "key-serializer",
        "value string",
        [("v",)],
        {"topic": "t", "kafka__key__serializer": "X"},
        "key.serializer",
    ),
    (
        "value-serializer",
        "value string",
        [("v",)],
        {"topic": "t", "kafka__value__serializer": "X"},
        "value.serializer",
    ),
]


@pytest.mark.parametrize(
    ("schema", "rows", "options", "word"), [pytest.param(*rest, id=name) for name, *rest in REFUSED]
)
def test_what_cannot_be_written_is_refused(
    column: Column, schema: str, rows: list[tuple[Any, ...]], options: dict[str, object], word: str
) -> None:
    with pytest.raises(Exception, match=f"(?i){word}"):
        column.write(column.frame(rows, schema), **options)


def test_a_row_without_a_topic_is_refused(column: Column) -> None:
    with pytest.raises(Exception, match=r"(?i)topic"):
        column.write(column.frame([(None, "v")], "topic string, value string"))


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_a_topic_can_only_be_appended_to(column: Column, mode: str) -> None:
    topic = column.topic()
    with pytest.raises(Exception, match=r"(?i)mode|overwrite|truncate|ignore|append"):
        column.write(column.frame([("v",)], "value string"), mode, topic=topic)
    assert column.stored(topic) == []
