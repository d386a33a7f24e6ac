"""Avro values as typed columns: binary data of one record schema, without a header, as Spark's `from_avro` reads it.

A schema is compiled once into functions that read one type each: bytes and a position in, a value and the position
after it out. Numbers are zigzag varints, floats little-endian, lengths before bytes and texts; a union begins with
the number of its branch, arrays and maps come in counted blocks, a negative count followed by a size in bytes.
Of unions only those of null and one other type are read: Spark has no column for others.

A value that does not end where its schema ends, or breaks its rules on the way, is corrupt. Plain Python.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from ottla.base.errors import LocalError

Reading = Callable[[bytes, int], tuple[Any, int]]

_VARINT_BYTES_MAX: Final = 10
_UNFIT: Final = (pa.ArrowInvalid, OverflowError)
_PRIMITIVE_DDL: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BINARY",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BINARY",
}
_LOGICAL_DDL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}


class _Corrupt(Exception):
    """The bytes are not of the schema."""


def avro_ddl(text: str) -> str:
    """The columns of an Avro record schema as DDL."""
    return ", ".join(f"`{field['name']}` {_ddl(field['type'])}" for field in _record(text)["fields"])


def _record(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise LocalError(f"valueSchema is not the JSON of an Avro schema: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise LocalError("valueSchema must be an Avro record")
    return schema


def _kind(schema: Any) -> tuple[str, dict[str, Any]]:
    """The type's name and the object that describes it."""
    if isinstance(schema, str):
        return schema, {}
    if isinstance(schema, dict) and isinstance(schema.get("type"), str):
        return schema["type"], schema
    if isinstance(schema, dict) and "type" in schema:
        return _kind(schema["type"])
    raise LocalError(f"valueSchema: {json.dumps(schema)} is no type that can be read")


def _optional(schema: list[Any]) -> tuple[int, Any]:
    """Of a union: the number of its null branch (-1 if none) and its other branch."""
    others = [branch for branch in schema if branch != "null"]
    if len(others) != 1 or len(schema) > 2:
        raise LocalError(
            f"valueSchema: only unions of null and one type can be read, not {json.dumps(schema)}"
        )
    return (schema.index("null") if "null" in schema else -1), others[0]


def _ddl(schema: Any) -> str:
    if isinstance(schema, list):
        return _ddl(_optional(schema)[1])
    kind, described = _kind(schema)
    logical = str(described.get("logicalType"))
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return f"DECIMAL({described['precision']},{described.get('scale', 0)})"
    if (kind, logical) in _LOGICAL_DDL:
        return _LOGICAL_DDL[kind, logical]
    if kind == "record":
        inner = ", ".join(f"`{field['name']}`: {_ddl(field['type'])}" for field in described["fields"])
        return f"STRUCT<{inner}>"
    if kind == "array":
        return f"ARRAY<{_ddl(described['items'])}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(described['values'])}>"
    if kind not in _PRIMITIVE_DDL:
        raise LocalError(f"valueSchema: the type {kind!r} cannot be read (named types must be written out)")
    return _PRIMITIVE_DDL[kind]


class AvroReader:
    """Reads the values of a batch; see `formats.ValueReader`."""

    def __init__(self, text: str, fields: Sequence[pa.Field]) -> None:
        self._fields = list(fields)
        self._readings = [_reading(field["type"]) for field in _record(text)["fields"]]

    def __call__(self, values: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        taken = values.to_pylist()
        rows = [None if value is None else self._row(value) for value in taken]
        try:
            typed = self._columns(rows)
        except _UNFIT:
            # A number too large for its type: whose it is shows row by row.
            rows = [row if self._fits(row) else None for row in rows]
            typed = self._columns(rows)
        corrupt = [value if row is None else None for value, row in zip(taken, rows, strict=True)]
        return typed, pa.array(corrupt, pa.binary())

    def _columns(self, rows: list[list[Any] | None]) -> list[pa.Array]:
        empty = [None] * len(self._fields)
        full = [empty if row is None else row for row in rows]
        return [
            pa.array([row[place] for row in full], field.type) for place, field in enumerate(self._fields)
        ]

    def _fits(self, row: list[Any] | None) -> bool:
        try:
            self._columns([row])
        except _UNFIT:
            return False
        return True

    def _row(self, data: bytes) -> list[Any] | None:
        position, row = 0, []
        try:
            for reading in self._readings:
                cell, position = reading(data, position)
                row.append(cell)
        except (_Corrupt, IndexError, struct.error, UnicodeDecodeError, OverflowError):
            return None
        return row if position == len(data) else None


def _reading(schema: Any) -> Reading:
    """The function that reads a type."""
    if isinstance(schema, list):
        return _read_union(schema)
    kind, described = _kind(schema)
    make = _MAKERS.get(kind)
    if make is None:
        raise LocalError(f"valueSchema: the type {kind!r} cannot be read (named types must be written out)")
    return make(described)


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    for _ in range(_VARINT_BYTES_MAX):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise _Corrupt


def _read_millis(data: bytes, position: int) -> tuple[int, int]:
    number, position = _read_long(data, position)
    return number * 1000, position


def _read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    if data[position] > 1:
        raise _Corrupt
    return data[position] == 1, position + 1


def _read_float(form: struct.Struct) -> Reading:
    return lambda data, position: (form.unpack_from(data, position)[0], position + form.size)


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _read_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise _Corrupt
    return data[position:end], end


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    raw, position = _read_bytes(data, position)
    return raw.decode(), position


def _read_fixed(size: int) -> Reading:
    def read(data: bytes, position: int) -> tuple[bytes, int]:
        if position + size > len(data):
            raise _Corrupt
        return data[position : position + size], position + size

    return read


def _read_decimal(raw: Reading, described: dict[str, Any]) -> Reading:
    scale = int(described.get("scale", 0))

    def read(data: bytes, position: int) -> tuple[Decimal, int]:
        unscaled, position = raw(data, position)
        return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale), position

    return read


def _read_enum(symbols: list[str]) -> Reading:
    def read(data: bytes, position: int) -> tuple[str, int]:
        number, position = _read_long(data, position)
        if not 0 <= number < len(symbols):
            raise _Corrupt
        return symbols[number], position

    return read


def _read_union(schema: list[Any]) -> Reading:
    null, other = _optional(schema)
    branches, inner = len(schema), _reading(other)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        number, position = _read_long(data, position)
        if not 0 <= number < branches:
            raise _Corrupt
        return (None, position) if number == null else inner(data, position)

    return read


def _read_record(described: dict[str, Any]) -> Reading:
    inner = [(field["name"], _reading(field["type"])) for field in described["fields"]]

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        row = {}
        for name, reading in inner:
            row[name], position = reading(data, position)
        return row, position

    return read


def _read_pair(value: Reading) -> Reading:
    def read(data: bytes, position: int) -> tuple[tuple[str, Any], int]:
        name, position = _read_text(data, position)
        item, position = value(data, position)
        return (name, item), position

    return read


def _read_blocks(item: Reading) -> Reading:
    def read(data: bytes, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, position = _read_long(data, position)
            if count == 0:
                return items, position
            if count < 0:
                count = -count
                _, position = _read_long(data, position)
            if count > len(data):
                # Nothing to gain from items of no size, much to lose from a count that somebody made up.
                raise _Corrupt
            for _ in range(count):
                one, position = item(data, position)
                items.append(one)

    return read


def _make_long(described: dict[str, Any]) -> Reading:
    millis = described.get("logicalType") in {"timestamp-millis", "local-timestamp-millis"}
    return _read_millis if millis else _read_long


def _make_bytes(described: dict[str, Any]) -> Reading:
    raw = _read_fixed(int(described["size"])) if "size" in described else _read_bytes
    return _read_decimal(raw, described) if described.get("logicalType") == "decimal" else raw


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Reading]]] = {
    "null": lambda _: lambda _, position: (None, position),
    "boolean": lambda _: _read_boolean,
    "int": _make_long,
    "long": _make_long,
    "float": lambda _: _read_float(struct.Struct("<f")),
    "double": lambda _: _read_float(struct.Struct("<d")),
    "bytes": _make_bytes,
    "fixed": _make_bytes,
    "string": lambda _: _read_text,
    "enum": lambda described: _read_enum(described["symbols"]),
    "record": _read_record,
    "array": lambda described: _read_blocks(_reading(described["items"])),
    "map": lambda described: _read_blocks(_read_pair(_reading(described["values"]))),
}
