"""Decoded records as Arrow record batches with the schema that the source has declared to Spark.

The buffers of `records.columns` become Arrow arrays without a copy. Topic and partition are the same in all rows of a
task: their arrays are built once, for the largest batch so far, and sliced. Runs in Spark's Python workers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.records import columns
from ottla.spark.source.schema import CORRUPT, ColumnChoice, has_corrupt
from ottla.spark.source.session_zone import session_zone
from ottla.spark.values.formats import ValueReader, value_reader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ottla.records.columns import BinaryColumn, DecodedColumns, HeadersColumn
    from ottla.spark.source.options import SourceOptions

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects; the argument for the time zone depends on the version of Spark."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


class ArrowBatchBuilder:
    """Builds the Arrow record batches of one task."""

    def __init__(self, options: SourceOptions, schema: StructType, partition: TopicPartition) -> None:
        self._schema = arrow_schema(schema)
        self._choices = options.columns
        names = {choice.name for choice in options.columns if choice.column != "value"}
        self._has_corrupt = has_corrupt(options.columns, options.value_format)
        self._values: ValueReader | None = None
        if self._has_corrupt:
            fields = [field for field in self._schema if field.name not in names and field.name != CORRUPT]
            zone = partial(session_zone, options.time_zone)
            self._values = value_reader(options.value_format, options.value_schema, fields, zone)
        self._partition = partition
        self._constant: dict[str, pa.Array] = {}
        self.wanted = frozenset(choice.column for choice in options.columns) & columns.ALL_COLUMNS

    def build(self, decoded: DecodedColumns) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        corrupt: pa.Array | None = None
        for choice in self._choices:
            if choice.column == "value" and self._values is not None:
                typed, corrupt = self._values(_binary(decoded.value, decoded.rows, pa.binary()))
                arrays.extend(typed)
            else:
                arrays.append(self._array(choice, decoded))
        if corrupt is not None:
            arrays.append(corrupt)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, choice: ColumnChoice, decoded: DecodedColumns) -> pa.Array:
        rows = decoded.rows
        match choice.column:
            case "key":
                return _binary(decoded.key, rows, pa.binary())
            case "value":
                return _binary(decoded.value, rows, pa.binary())
            case "offset":
                return _numbers(decoded.offset, rows, pa.int64())
            case "timestamp":
                return _numbers(decoded.timestamp, rows, pa.timestamp("us", "UTC"))
            case "timestampType":
                return _numbers(decoded.timestamp_type, rows, pa.int32())
            case "headers":
                return _headers(decoded.headers, rows, self._schema.field(choice.name).type)
            case "topic":
                return self._repeated("topic", rows, lambda count: pa.repeat(self._partition.topic, count))
            case _:
                number = pa.scalar(self._partition.partition, pa.int32())
                return self._repeated("partition", rows, lambda count: pa.repeat(number, count))

    def _repeated(self, name: str, rows: int, build: Callable[[int], pa.Array]) -> pa.Array:
        made = self._constant.get(name)
        if made is None or len(made) < rows:
            made = self._constant[name] = build(rows)
        return made.slice(0, rows)


def _buffer(data: Any) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(data)


def _binary(column: BinaryColumn | None, rows: int, kind: pa.DataType) -> pa.Array:
    if column is None:
        raise LocalError("a column was requested that has not been decoded")
    buffers = [_buffer(column.validity), _buffer(column.offsets), _buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.nulls, column.start)


def _numbers(data: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _headers(column: HeadersColumn | None, rows: int, kind: pa.DataType) -> pa.Array:
    if column is None:
        raise LocalError("a column was requested that has not been decoded")
    keys = _binary(column.keys, column.entries, pa.string())
    values = _binary(column.values, column.entries, pa.binary())
    entries = pa.Array.from_buffers(_HEADER, column.entries, [None], 0, 0, [keys, values])
    buffers = [_buffer(column.validity), _buffer(column.offsets)]
    made = pa.Array.from_buffers(pa.list_(_HEADER), rows, buffers, column.nulls, column.start, [entries])
    return made if made.type == kind else made.cast(kind)
