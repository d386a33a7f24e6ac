"""JSON values as typed columns, with the results of Spark's `from_json`.

Most values are parsed by Arrow, one line per value. Arrow accepts objects that begin or end anywhere, so two rules make
sure that each row has its own value. Values that begin with { and end with } are parsed unchanged: one with an unclosed
object is an error because an object follows, so each value has at least one complete object, and if there are as many
rows as values, each has exactly one. All other values are wrapped into an object with the number of the row.

Arrow rejects some values that `from_json` accepts, and reads times in another way. So dates and timestamps are read as
text and converted if all of them have the most common forms. A batch that Arrow rejects is halved until few values are
left, which are then converted one by one in Python (`json_types`). `from_json` accepts three kinds of values that are
corrupt here: an empty one, text after the object, and bytes that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla.spark.values import times
from ottla.spark.values.json_text import parse
from ottla.spark.values.json_types import Partial, WrongType, record_converter

_ROW: Final = "#"
_VALUE: Final = "v"
_FEW: Final = 16
"""So many values are converted in Python instead of halving the batch again."""
_DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
_TIMESTAMP: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?$"
_ZONED: Final = r"(Z|[+-]\d{2}:\d{2})$"
_FIRST: Final = pa.scalar(-2_145_916_800_000_000, pa.timestamp("us"))
_LAST: Final = pa.scalar(2_114_380_800_000_000, pa.timestamp("us"))
"""1902 and 2037: Arrow does not have the rules of time zones outside of these years."""
_DIGITS: Final = 76
_INSTANT: Final = pa.timestamp("us", "UTC")


class _Uncommon(Exception):
    """A value that Arrow cannot convert as Spark does."""


class JsonReader:
    """Values that must be JSON objects of one schema; names that are not in the schema are ignored.

    `zone` is called for a timestamp without a time zone.
    """

    def __init__(self, fields: Sequence[pa.Field], zone: Callable[[], times.Zone]) -> None:
        self._fields = list(fields)
        self._zone = zone
        self._convert = record_converter(self._fields, zone)
        read = [_as_read(field.type) for field in fields]
        self._has_fast_path = None not in read
        typed = pa.struct(
            [pa.field(field.name, kind or pa.null()) for field, kind in zip(fields, read, strict=True)]
        )
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
        return typed, pc.if_else(is_corrupt, values, pa.scalar(None, values.type))

    def _read(self, values: pa.Array, first: int, corrupt: list[int]) -> list[list[pa.Array]]:
        read = self._read_all(values) if self._has_fast_path else None
        if read is not None:
            return [read]
        rows = len(values)
        if rows <= _FEW or not self._has_fast_path:
            return [self._read_each(values, first, corrupt)]
        half = rows // 2
        return [
            *self._read(values.slice(0, half), first, corrupt),
            *self._read(values.slice(half), first + half, corrupt),
        ]

    # One by one

    def _read_each(self, values: pa.Array, first: int, corrupt: list[int]) -> list[pa.Array]:
        rows: list[list[Any]] = []
        for number, value in enumerate(values.to_pylist()):
            try:
                rows.append(self._convert(parse(value.decode())))
            except Partial as partial:
                rows.append(partial.value)
                corrupt.append(first + number)
            except (WrongType, ValueError, RecursionError):
                rows.append([None] * len(self._fields))
                corrupt.append(first + number)
        columns = zip(*rows, strict=True)
        return [pa.array(column, field.type) for column, field in zip(columns, self._fields, strict=True)]

    # By Arrow

    def _read_all(self, values: pa.Array) -> list[pa.Array] | None:
        """The typed columns, or None if they have to be converted in another way."""
        try:
            values.cast(pa.string())  # Arrow does not check that texts are UTF-8
            columns = self._read_plain(values) if _are_objects(values) else self._read_wrapped(values)
            if columns is None:
                return None
            return [
                self._restored(column, field.type)
                for column, field in zip(columns, self._fields, strict=True)
            ]
        except (pa.ArrowInvalid, _Uncommon, UnicodeDecodeError):
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
        column = table.column(_VALUE).combine_chunks()
        return None if column.null_count else list(column.flatten())

    def _restored(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """The column with the type of the schema, from the type that Arrow has read."""
        if column.type == kind:
            return column
        if pa.types.is_date(kind):
            return _matching(column, _DATE).cast(kind)
        if pa.types.is_timestamp(kind):
            return self._timestamps(_matching(column, _TIMESTAMP), kind)
        if pa.types.is_list(kind):
            lists = column if column.offset == 0 else pa.concat_arrays([column])
            values = self._restored(lists.values, kind.value_type)
            return pa.ListArray.from_arrays(lists.offsets, values, type=kind, mask=lists.is_null())
        if pa.types.is_struct(kind):
            fields = [kind.field(number) for number in range(kind.num_fields)]
            parts = [
                self._restored(part, field.type) for part, field in zip(column.flatten(), fields, strict=True)
            ]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
        return column.cast(kind)

    def _timestamps(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        is_zoned = pc.match_substring_regex(texts, _ZONED)
        zoned = pc.if_else(is_zoned, texts, pa.scalar(None, pa.string()))
        if kind.tz is None:
            if zoned.null_count < len(texts):
                raise _Uncommon
            return texts.cast(kind)
        if zoned.null_count == texts.null_count:
            return texts.cast(kind)
        local = pc.if_else(is_zoned, pa.scalar(None, pa.string()), texts).cast(pa.timestamp("us"))
        return pc.coalesce(zoned.cast(kind), _instants(local, self._zone()).cast(kind))


def _instants(local: pa.Array, zone: times.Zone) -> pa.Array:
    if zone.region is None:
        return pc.subtract(local, pa.scalar(zone.offset_s * times.MICROS, pa.duration("us"))).cast(_INSTANT)
    limits = pc.min_max(local)
    if limits["min"].as_py() is not None and (
        pc.less(limits["min"], _FIRST).as_py() or pc.greater(limits["max"], _LAST).as_py()
    ):
        raise _Uncommon
    return pc.assume_timezone(local, zone.region.key, ambiguous="earliest", nonexistent="raise").cast(
        _INSTANT
    )


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
        raise _Uncommon
    return texts


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


def _as_read(kind: pa.DataType) -> pa.DataType | None:
    """The type for Arrow's JSON reader; None for a type that it does not read as Spark does."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_list(kind):
        inner = _as_read(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        read = [(field.name, _as_read(field.type)) for field in fields]
        return None if any(inner is None for _, inner in read) else pa.struct(read)
    if pa.types.is_decimal(kind):
        return pa.decimal256(_DIGITS, kind.scale)  # Arrow does not check the number of digits; the cast does
    is_read = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if is_read or pa.types.is_string(kind) else None
