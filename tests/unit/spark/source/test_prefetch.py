"""Which batches are handed over along with their plan, and how a reader passes for one that can."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientError
from ottla.spark.source.arrow_batches import arrow_schema
from ottla.spark.source.prefetch import (
    BYTES_MAX,
    OFFSETS_MAX,
    SKIPPED_BATCHES,
    Prefetcher,
    PrefetchingReader,
    schemas_match,
)
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.spark_readers import OttlaStreamReader

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
RECORDS: Any = ["records"]
SMALL = OffsetRange(A0, 10, 10 + OFFSETS_MAX)


class _Reading:
    """Fake read: returns the given result, or raises it if it is an error."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[OffsetRange, int]] = []

    def __call__(self, wanted: OffsetRange, bytes_max: int) -> Any:
        self.asked.append((wanted, bytes_max))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_small_range_is_handed_over() -> None:
    reading = _Reading(RECORDS)
    assert Prefetcher(reading, fits=True).take([SMALL]) is RECORDS
    assert reading.asked == [(SMALL, BYTES_MAX)]


def test_a_range_without_records_is_handed_over() -> None:
    assert Prefetcher(_Reading([]), fits=True).take([SMALL]) == []


@pytest.mark.parametrize(
    "ranges", [[], [OffsetRange(A0, 0, 1), OffsetRange(A1, 0, 1)], [OffsetRange(A0, 0, OFFSETS_MAX + 1)]]
)
def test_other_plans_are_left_to_tasks(ranges: list[OffsetRange]) -> None:
    reading = _Reading(RECORDS)
    assert Prefetcher(reading, fits=True).take(ranges) is None
    assert reading.asked == []


def test_columns_that_spark_would_refuse_are_left_to_tasks() -> None:
    reading = _Reading(RECORDS)
    assert Prefetcher(reading, fits=False).take([SMALL]) is None
    assert reading.asked == []


@pytest.mark.parametrize("answer", [None, ClientError("the leader is gone")])
def test_what_cannot_be_had_at_once_is_not_tried_for_a_while(answer: Any) -> None:
    reading = _Reading(answer)
    handover = Prefetcher(reading, fits=True)
    assert [handover.take([SMALL]) for _ in range(SKIPPED_BATCHES + 1)] == [None] * (SKIPPED_BATCHES + 1)
    assert len(reading.asked) == 1
    reading.answer = RECORDS
    assert handover.take([SMALL]) is RECORDS


def test_a_reader_is_a_simple_reader_while_it_has_prefetched_records() -> None:
    reader = PrefetchingReader()
    assert not isinstance(reader, _SimpleStreamReaderWrapper)
    reader._prefetched = RECORDS
    assert isinstance(reader, _SimpleStreamReaderWrapper)
    assert list(reader.getCache({}, {})) == RECORDS
    assert not isinstance(reader, _SimpleStreamReaderWrapper)
    assert isinstance(reader, PrefetchingReader)


def test_a_reader_is_pickled_without_its_prefetched_records() -> None:
    options: Any = "options"
    reader = OttlaStreamReader(options, StructType().add("value", "binary"))
    assert reader._prefetcher
    reader._prefetched = RECORDS
    assert list(reader.getCache({}, {})) == RECORDS
    arrived = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own bytes
    assert type(arrived) is OttlaStreamReader
    assert set(vars(arrived)) == {"_options", "_schema"}


HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
NAMES = MapType(StringType(), LongType())
PLACE = StructType().add("row", IntegerType(), nullable=False).add("seats", ArrayType(IntegerType()))


@pytest.mark.parametrize(
    "kind",
    [
        BinaryType(),
        HEADERS,
        PLACE,
        TimestampType(),
        TimestampNTZType(),
        DateType(),
        DecimalType(10, 2),
        NAMES,
    ],
)
def test_columns_that_arrow_describes_wholly_fit(kind: DataType) -> None:
    schema = StructType().add("column", kind)
    assert schemas_match(schema, arrow_schema(schema))


def test_comments_go_along_and_collations_do_not() -> None:
    schema = StructType().add("column", BinaryType(), metadata={"comment": "as it came"})
    assert schemas_match(schema, arrow_schema(schema))
    collated = StructType().add("column", StringType("UNICODE_CI"))
    assert not schemas_match(collated, arrow_schema(collated))
