"""Values as typed columns: text, JSON and Avro, decoded by column instead of by record.

A value reader gets the values of a batch and returns the typed arrays and the array `_corrupt`: the bytes of each value
that does not match the schema, null for the others. A null value (a tombstone) gives nulls and is not corrupt. A
corrupt value gives nulls in all typed columns; no part of it is used.

JSON is parsed by Arrow, one line per value. Arrow accepts objects that begin or end anywhere, so two rules make sure
that each row has its own value. Values that begin with { and end with } are parsed unchanged: one with an unclosed
object is an error because an object follows, so each value has at least one complete object, and if there are as many
rows as values, each has exactly one. All other values are wrapped into an object with the number of the row. A batch
with an error is halved until the corrupt values are alone. Parsing is stricter than Spark's `from_json`: a number is
not converted to a string, and a duplicate name is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla.base.errors import LocalError

ValueReader = Callable[[pa.Array], tuple[list[pa.Array], pa.Array]]
"""Converts values to typed columns and `_corrupt`."""

_ROW: Final = "#"
_VALUE: Final = "v"


def value_reader(value_format: str, value_schema: str | None, fields: Sequence[pa.Field]) -> ValueReader:
    """The reader for a format; `fields` are the typed columns with Spark's types."""
    if value_format == "string":
        return read_strings
    if value_format == "json":
        return JsonReader(fields)
    from ottla.spark.values.avro import AvroReader

    return AvroReader(value_schema or "", fields)


def read_strings(values: pa.Array) -> tuple[list[pa.Array], pa.Array]:
    """Values that must be UTF-8."""
    try:
        return [values.cast(pa.string())], pa.nulls(len(values), pa.binary())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for value in values.to_pylist():
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                texts.append(None)
        made = pa.array(texts, pa.string())
        return [made], _bytes_where(values, pc.is_null(made))


def _bytes_where(values: pa.Array, is_corrupt: pa.Array) -> pa.Array:
    return pc.if_else(is_corrupt, values, pa.scalar(None, values.type))


class JsonReader:
    """Values that must be JSON objects of one schema; names that are not in the schema are ignored."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        for field in fields:
            _check_json_type(field.name, field.type)
        self._fields = list(fields)
        typed = pa.struct([pa.field(field.name, _as_read(field.type)) for field in fields])
        self._plain = _parsing(pa.schema(list(typed)))
        self._wrapped = _parsing(pa.schema([(_ROW, pa.int64()), (_VALUE, typed)]))

    def __call__(self, values: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        rows = len(values)
        if rows == 0:
            return [pa.nulls(0, field.type) for field in self._fields], pa.nulls(0, pa.binary())
        corrupt: list[int] = []
        pieces = self._read(values.fill_null(b"{}"), 0, corrupt)
        typed = [pa.concat_arrays([piece[number] for piece in pieces]) for number in range(len(self._fields))]
        if not corrupt:
            return typed, pa.nulls(rows, pa.binary())
        is_corrupt = pc.is_in(pa.array(range(rows), pa.int64()), pa.array(corrupt, pa.int64()))
        return typed, _bytes_where(values, is_corrupt)

    def _read(self, values: pa.Array, first: int, corrupt: list[int]) -> list[list[pa.Array]]:
        read = self._read_all(values)
        if read is not None:
            return [read]
        rows = len(values)
        if rows == 1:
            corrupt.append(first)
            return [[pa.nulls(1, field.type) for field in self._fields]]
        half = rows // 2
        return [
            *self._read(values.slice(0, half), first, corrupt),
            *self._read(values.slice(half), first + half, corrupt),
        ]

    def _read_all(self, values: pa.Array) -> list[pa.Array] | None:
        """The typed columns, or None if a value is corrupt."""
        try:
            columns = self._read_plain(values) if _are_objects(values) else self._read_wrapped(values)
            if columns is None:
                return None
            return [column.cast(field.type) for column, field in zip(columns, self._fields, strict=True)]
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None

    def _read_plain(self, values: pa.Array) -> list[pa.Array] | None:
        table = _parsed(_lines(values), self._plain)
        if table.num_rows != len(values):
            return None
        return [column.combine_chunks() for column in table.columns]

    def _read_wrapped(self, values: pa.Array) -> list[pa.Array] | None:
        numbers = pa.array(range(len(values)), pa.int64())
        table = _parsed(_lines(_numbered(values, numbers)), self._wrapped)
        if not table.column(_ROW).combine_chunks().equals(numbers):
            return None
        return list(table.column(_VALUE).combine_chunks().flatten())


def _parsing(schema: pa.Schema) -> pj.ParseOptions:
    return pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")


def _parsed(text: pa.Buffer, parsing: pj.ParseOptions) -> pa.Table:
    """Parse the text as one block, so that a line break inside a value is whitespace."""
    reading = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return pj.read_json(pa.BufferReader(text), reading, parsing)


def _are_objects(values: pa.Array) -> bool:
    """Whether all values begin and end as JSON objects do."""
    begin, end = pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}")
    return bool(pc.all(begin).as_py() and pc.all(end).as_py())


def _numbered(values: pa.Array, numbers: pa.Array) -> pa.Array:
    """{"#":0,"v":...} of each value."""
    texts = numbers.cast(pa.string()).cast(pa.binary())
    parts = (pa.scalar(b'{"#":'), texts, pa.scalar(b',"v":'), values, pa.scalar(b"}"))
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))


def _lines(values: pa.Array) -> pa.Buffer:
    lines = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.binary_join(lines, pa.scalar(b"\n"))[0].as_buffer()


def _as_read(kind: pa.DataType) -> pa.DataType:
    """The type for Arrow's JSON reader, which does not support dates: they are read as text and cast."""
    return pa.string() if pa.types.is_date(kind) else kind


def _check_json_type(name: str, kind: pa.DataType) -> None:
    if pa.types.is_list(kind):
        _check_nested(name, kind.value_type)
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            _check_nested(name, kind.field(number).type)
    elif pa.types.is_map(kind):
        raise LocalError(f"valueSchema: the type {kind} of {name} cannot be read from JSON; declare a struct")


def _check_nested(name: str, kind: pa.DataType) -> None:
    if pa.types.is_date(kind):
        raise LocalError(f"valueSchema: {name} has a nested date; declare it as a string and cast it")
    _check_json_type(name, kind)
