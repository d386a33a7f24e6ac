"""Rows to partitions and bytes, checked by decoding them again."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Cluster
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.records.kernel import murmur2
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.row_encoder import RowEncoder, check_schema

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
NOW_MS = 1_700_000_000_000


def cluster(limit: int | None = None, /, **partitions: int) -> Cluster:
    """Topics with so many partitions, and the size of batches that they take."""
    topics = {
        name: SimpleNamespace(partitions=dict.fromkeys(range(count))) for name, count in partitions.items()
    }
    clock = SimpleNamespace(now_ms=lambda: NOW_MS)
    made = SimpleNamespace(
        topic=lambda name, create: topics[name],
        batch_limit=lambda name: limit,
        clock=clock,
        forget_topic=lambda name, **_: None,
    )
    return cast(Cluster, made)


def options(**given: str) -> SinkOptions:
    base = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    named = {name.replace("_", "."): value for name, value in given.items()}
    return SinkOptions.parse({**base, **named}, streaming=True)


def cells(column: BinaryColumn | None, rows: int) -> list[bytes | None]:
    assert column is not None
    buffers = [
        None if part is None else pa.py_buffer(part)
        for part in (column.validity, column.offsets, column.data)
    ]
    return cast(
        "list[bytes | None]", pa.Array.from_buffers(pa.binary(), rows, buffers, column.nulls).to_pylist()
    )


def written(
    writer: RowEncoder, batch: pa.RecordBatch
) -> Iterator[tuple[TopicPartition, bytes | None, bytes | None]]:
    for partition, batches in writer.encode(batch):
        for data in batches:
            decoded = columns.decode(
                data, start_offset=0, end_offset=1 << 40, wanted={"key", "value"}, check_crc=False
            )
            yield from zip(
                [partition] * decoded.rows,
                cells(decoded.key, decoded.rows),
                cells(decoded.value, decoded.rows),
                strict=True,
            )


def make(**arrays: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(arrays)


def test_keys_choose_partitions_as_javas_client_does() -> None:
    keys = [f"key-{number}".encode() for number in range(200)]
    batch = make(key=pa.array(keys), value=pa.array([b"v"] * 200))
    found = list(written(RowEncoder(options(), cluster(t=7), 0), batch))
    assert sorted(key or b"" for _, key, _ in found) == sorted(keys)
    for partition, key, _ in found:
        assert partition == TopicPartition("t", (murmur2(key or b"") & 0x7FFFFFFF) % 7)


def test_slices_strings_and_large_types_are_the_same() -> None:
    whole = make(key=pa.array(["a", "b", "c", None]), value=pa.array(["1", None, "3", "4"]))
    large = make(
        key=whole.column("key").cast(pa.large_string()), value=whole.column("value").cast(pa.large_binary())
    )
    for batch in (whole.slice(1), large.slice(1)):
        found = list(written(RowEncoder(options(), cluster(t=1), 0), batch))
        assert [(key, value) for _, key, value in found] == [(b"b", None), (b"c", b"3"), (None, b"4")]


def test_a_partition_that_was_added_meanwhile_is_found() -> None:
    known = cluster(t=1)

    def grow(_: str, older_than_s: float = 0.0) -> None:
        if older_than_s:
            return  # it was heard of a moment ago
        known.topic = cluster(t=3).topic  # type: ignore[method-assign]

    known.forget_topic = grow  # type: ignore[method-assign]
    batch = make(value=pa.array([b"0", b"1"]), partition=pa.array([0, 2], pa.int32()))
    found = list(written(RowEncoder(options(), known, 0), batch))
    assert [(partition.partition, value) for partition, _, value in found] == [(0, b"0"), (2, b"1")]
    beyond = make(value=pa.array([b"0"]), partition=pa.array([3], pa.int32()))
    with pytest.raises(LocalError, match="has partition 3, but topic t has 3"):
        list(written(RowEncoder(options(), known, 0), beyond))


def test_the_column_partition_wins_where_it_is_given() -> None:
    batch = make(
        key=pa.array([b"k"] * 3),
        value=pa.array([b"0", b"1", b"2"]),
        partition=pa.array([4, None, 0], pa.int32()),
    )
    found = {
        value: partition.partition
        for partition, _, value in written(RowEncoder(options(), cluster(t=5), 0), batch)
    }
    assert found == {b"0": 4, b"1": (murmur2(b"k") & 0x7FFFFFFF) % 5, b"2": 0}


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_partition_that_is_not_there_is_refused(wrong: int) -> None:
    batch = make(value=pa.array([b"0"]), partition=pa.array([wrong], pa.int32()))
    with pytest.raises(LocalError, match=f"has partition {wrong}, but topic t has 5"):
        list(RowEncoder(options(), cluster(t=5), 0).encode(batch))


def test_few_rows_without_keys_stay_together_and_take_turns() -> None:
    writer = RowEncoder(options(kafka_batch_size="100"), cluster(t=3), 1)
    batch = make(value=pa.array([b"x" * 50]))
    found = [next(written(writer, batch))[0].partition for _ in range(6)]
    assert found == [1, 1, 2, 2, 0, 0]


def test_many_rows_without_keys_are_spread_in_runs() -> None:
    batch = make(value=pa.array([f"{number:08}".encode() * 20 for number in range(3000)]))
    found = list(written(RowEncoder(options(), cluster(t=3), 0), batch))
    by_partition = {
        index: [value or b"" for tp, _, value in found if tp.partition == index] for index in range(3)
    }
    assert [len(values) for values in by_partition.values()] == [1000, 1000, 1000]
    for values in by_partition.values():
        assert values == sorted(values)


def test_rows_choose_their_topics() -> None:
    writer = RowEncoder(
        SinkOptions.parse({"kafka.bootstrap.servers": "h:1"}, streaming=True), cluster(a=1, b=1), 0
    )
    batch = make(topic=pa.array(["a", "b", "a"]), value=pa.array([b"0", b"1", b"2"]))
    assert [(tp.topic, value) for tp, _, value in written(writer, batch)] == [
        ("a", b"0"),
        ("a", b"2"),
        ("b", b"1"),
    ]
    with pytest.raises(LocalError, match="null topic present in the data"):
        list(writer.encode(make(topic=pa.array(["a", None]), value=pa.array([b"0", b"1"]))))


def test_the_option_topic_overrides_the_column() -> None:
    batch = make(topic=pa.array([None, "b"]), value=pa.array([b"0", b"1"]))
    assert {tp.topic for tp, _, _ in written(RowEncoder(options(), cluster(t=1), 0), batch)} == {"t"}


def test_headers_are_written() -> None:
    headers = pa.array([None, [("a", b"1"), ("a", None)], []], pa.list_(HEADER))
    batch = make(value=pa.array([b"0", b"1", b"2"]), headers=headers)
    for rows in (batch, batch.slice(1)):
        ((_, (data,)),) = RowEncoder(options(), cluster(t=1), 0).encode(rows)
        decoded = columns.decode(data, start_offset=0, end_offset=9, wanted={"headers"}, check_crc=False)
        assert decoded.headers is not None
        assert cells(decoded.headers.keys, decoded.headers.entries) == [b"a", b"a"]
        assert cells(decoded.headers.values, decoded.headers.entries) == [b"1", None]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("limit", [2_000, 40_000, 1_048_588])
def test_no_batch_is_larger_than_its_topic_takes(codec: str, limit: int) -> None:
    """Of bytes that do not compress, so that packing makes them more."""
    noise = Random(7)
    batch = make(value=pa.array([noise.randbytes(400) for _ in range(max(50, 3 * limit // 400))]))
    writer = RowEncoder(options(kafka_compression_type=codec), cluster(limit, t=1), 0)
    ((_, batches),) = writer.encode(batch)
    sizes = [len(one) for one in batches]
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit * 2 // 3 - 700, "and none is smaller than it needs to be"


def test_the_option_limits_batches_too() -> None:
    batch = make(value=pa.array([b"x" * 400] * 100))
    for limit in (None, 1_048_588):
        writer = RowEncoder(options(kafka_batch_size="5000"), cluster(limit, t=1), 0)
        ((_, batches),) = writer.encode(batch)
        assert 4_000 < max(len(one) for one in batches) <= 5_000


@pytest.mark.parametrize("are_null", [True, False])
def test_headers_of_which_there_are_none(are_null: bool) -> None:
    """Some writers of Arrow leave out the only offset of columns without rows."""
    nothing = pa.py_buffer(b"")
    children = [
        pa.Array.from_buffers(kind, 0, [None, nothing, nothing]) for kind in (pa.string(), pa.binary())
    ]
    headers = pa.Array.from_buffers(
        pa.list_(HEADER),
        2,
        [pa.py_buffer(bytes(1)) if are_null else None, pa.py_buffer(bytes(12))],
        children=[pa.StructArray.from_arrays(children, fields=list(HEADER))],
    )
    batch = make(value=pa.array([b"0", b"1"]), headers=headers)
    found = written(RowEncoder(options(), cluster(t=1), 0), batch)
    assert [value for _, _, value in found] == [b"0", b"1"]


def test_nothing_is_made_of_no_rows() -> None:
    assert list(RowEncoder(options(), cluster(t=1), 0).encode(make(value=pa.array([], pa.binary())))) == []


def schema(**kinds: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def test_what_the_connector_takes_is_taken() -> None:
    check_schema(
        schema(
            key=BinaryType(), value=StringType(), headers=HEADERS, partition=IntegerType(), other=LongType()
        ),
        "t",
    )
    check_schema(schema(value=BinaryType(), topic=StringType()), None)


@pytest.mark.parametrize(
    ("kinds", "topic", "reason"),
    [
        ({"key": StringType()}, "t", "Required attribute 'value' not found"),
        ({"value": StringType()}, None, "topic option required when no 'topic' attribute is present"),
        ({"value": LongType()}, "t", "value attribute unsupported type bigint"),
        ({"value": StringType(), "key": LongType()}, "t", "key attribute unsupported type bigint"),
        ({"value": StringType(), "topic": BinaryType()}, None, "topic attribute unsupported type binary"),
        (
            {"value": StringType(), "partition": LongType()},
            "t",
            "partition attribute unsupported type bigint",
        ),
        ({"value": StringType(), "headers": StringType()}, "t", "headers attribute unsupported type string"),
    ],
)
def test_what_the_connector_refuses_is_refused(kinds: dict[str, Any], topic: str | None, reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        check_schema(schema(**kinds), topic)
