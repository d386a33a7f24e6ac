"""Decoded records as record batches of the promised schema."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Header
from ottla.spark.source.arrow_batches import ArrowBatchBuilder, arrow_schema
from ottla.spark.source.options import SourceOptions

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
FULL = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
    ]
)
RECORDS = [
    NewRecord(b"k", b'{"a":1}', (Header("h", b"x"), Header("n", None)), 1500),
    NewRecord(None, None, (), 1501),
    NewRecord(b"", b"oops", (), 1502),
]


def make(schema: StructType, records: list[NewRecord], **more: str) -> pa.RecordBatch:
    given = {"kafka.bootstrap.servers": "x", "subscribe": "a", **more}
    maker = ArrowBatchBuilder(SourceOptions.parse(given, streaming=True), schema, TopicPartition("a", 7))
    data = build_batch(records, base_offset=40)
    for count in (1, len(records)):
        # Twice, so that what is kept between batches is too short the first time.
        decoded = columns.decode(data, start_offset=40, end_offset=40 + count, wanted=maker.wanted)
        batch = maker.build(decoded)
        batch.validate(full=True)
        assert batch.schema == arrow_schema(schema)
    return batch


def test_all_columns() -> None:
    batch = make(FULL, RECORDS, includeHeaders="true")
    table = batch.to_pydict()
    assert table["key"] == [b"k", None, b""]
    assert table["value"] == [b'{"a":1}', None, b"oops"]
    assert table["topic"] == ["a"] * 3
    assert table["partition"] == [7] * 3
    assert table["offset"] == [40, 41, 42]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_500_000, 1_501_000, 1_502_000]
    assert table["timestampType"] == [0] * 3
    assert table["headers"] == [[{"key": "h", "value": b"x"}, {"key": "n", "value": None}], None, None]


def test_typed_columns_in_their_places() -> None:
    schema = StructType(
        [
            StructField("place", LongType()),
            StructField("a", IntegerType()),
            StructField("key", BinaryType()),
            StructField("_corrupt", BinaryType()),
        ]
    )
    batch = make(
        schema, RECORDS, columns="offset as place, value, key", valueFormat="json", valueSchema="a INT"
    )
    assert batch.to_pydict() == {
        "place": [40, 41, 42],
        "a": [1, None, None],
        "key": [b"k", None, b""],
        "_corrupt": [None, None, b"oops"],
    }
