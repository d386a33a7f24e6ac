"""Avro values as typed columns: binary data of one record schema, without a header, as Spark's `from_avro` reads it.

`fastavro` decodes the values; the figures are in docs/decisions/0016-avro.md. Two things are done here. The schema is
checked and translated into columns: Spark has no column for a union other than one of null and one type. And logical
types of numbers are left to Arrow, which converts a column at once.

A value that does not end where its schema ends, or that cannot be decoded, is corrupt.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import fastavro
import pyarrow as pa

from ottla.base.errors import LocalError

_DECODING_ERRORS: Final = (EOFError, LookupError, ValueError, ArithmeticError)
_CONVERSION_ERRORS: Final = (pa.ArrowInvalid, OverflowError)
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
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")
_LOGICAL_DDL: Final = {
    ("int", "date"): "DATE",
    ("long", "timestamp-millis"): "TIMESTAMP",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("long", "local-timestamp-millis"): "TIMESTAMP_NTZ",
    ("long", "local-timestamp-micros"): "TIMESTAMP_NTZ",
}


def avro_ddl(text: str) -> str:
    """The columns of an Avro record schema as DDL; raises `LocalError` for a schema that cannot be read."""
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
    """The name of the type and the object that describes it."""
    if isinstance(schema, str):
        return schema, {}
    if isinstance(schema, dict) and isinstance(schema.get("type"), str):
        return schema["type"], schema
    if isinstance(schema, dict) and "type" in schema:
        return _kind(schema["type"])
    raise LocalError(f"valueSchema: {json.dumps(schema)} is not a type that can be read")


def _branch(schema: list[Any]) -> Any:
    """The branch of a union that is not null."""
    others = [branch for branch in schema if branch != "null"]
    if len(others) != 1 or len(schema) > 2:
        raise LocalError(
            f"valueSchema: only unions of null and one type can be read, not {json.dumps(schema)}"
        )
    return others[0]


def _ddl(schema: Any) -> str:
    if isinstance(schema, list):
        return _ddl(_branch(schema))
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
        if _is_empty(described["items"]):
            # A value of a few bytes could declare any number of items that take no bytes.
            raise LocalError("valueSchema: arrays of items without a size cannot be read")
        return f"ARRAY<{_ddl(described['items'])}>"
    if kind == "map":
        return f"MAP<STRING, {_ddl(described['values'])}>"
    if kind not in _PRIMITIVE_DDL:
        raise LocalError(
            f"valueSchema: the type {kind!r} cannot be read; write the definition of a named type each time"
        )
    return _PRIMITIVE_DDL[kind]


def _is_empty(schema: Any) -> bool:
    """Whether values of the type are encoded in no bytes."""
    if isinstance(schema, list):
        return False
    kind, described = _kind(schema)
    if kind == "record":
        return all(_is_empty(field["type"]) for field in described["fields"])
    return kind == "null" or (kind == "fixed" and not int(described["size"]))


class AvroReader:
    """Decodes the values of a batch; see `formats.ValueReader`."""

    def __init__(self, text: str, fields: Sequence[pa.Field]) -> None:
        record = _record(text)
        avro_ddl(text)
        names = (f"type{number}" for number in itertools.count())
        self._schema = fastavro.parse_schema(_encoding(record, names))
        self._fields = list(fields)
        kinds = [
            _decoded_type(avro["type"], field.type)
            for avro, field in zip(record["fields"], fields, strict=True)
        ]
        self._decoded = pa.struct([field.with_type(kind) for field, kind in zip(fields, kinds, strict=True)])

    def __call__(self, values: pa.Array) -> tuple[list[pa.Array], pa.Array]:
        encoded = values.to_pylist()
        rows = [None if value is None else self._decode(value) for value in encoded]
        try:
            typed = self._columns(rows)
        except _CONVERSION_ERRORS:
            # Some number is too large for its type. Converting the rows one by one shows which.
            rows = [row if self._converts(row) else None for row in rows]
            typed = self._columns(rows)
        corrupt = [value if row is None else None for value, row in zip(encoded, rows, strict=True)]
        return typed, pa.array(corrupt, pa.binary())

    def _decode(self, value: bytes) -> dict[str, Any] | None:
        """The record; None if the value is corrupt."""
        stream = io.BytesIO(value)
        try:
            row = cast(dict[str, Any], fastavro.schemaless_reader(stream, self._schema, None))
        except _DECODING_ERRORS:
            return None
        return row if stream.tell() == len(value) else None

    def _columns(self, rows: list[dict[str, Any] | None]) -> list[pa.Array]:
        decoded = pa.array(rows, self._decoded).flatten()
        return [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(decoded, self._fields, strict=True)
        ]

    def _converts(self, row: dict[str, Any] | None) -> bool:
        try:
            self._columns([row])
        except _CONVERSION_ERRORS:
            return False
        return True


def _encoding(schema: Any, names: Iterator[str]) -> Any:
    """The schema for `fastavro`: only what decides about bytes, and decimals. Each named type gets a name of its own.

    Without the logical types, dates and timestamps are decoded as numbers, which Arrow converts faster.
    """
    if isinstance(schema, list):
        return [_encoding(branch, names) for branch in schema]
    kind, described = _kind(schema)
    match kind:
        case "record":
            fields = [
                {"name": field["name"], "type": _encoding(field["type"], names)}
                for field in described["fields"]
            ]
            return {"type": kind, "name": next(names), "fields": fields}
        case "array":
            return {"type": kind, "items": _encoding(described["items"], names)}
        case "map":
            return {"type": kind, "values": _encoding(described["values"], names)}
        case "enum":
            return {"type": kind, "name": next(names), "symbols": described["symbols"]}
    plain = {"type": kind}
    if kind == "fixed":
        plain |= {"name": next(names), "size": described["size"]}
    if described.get("logicalType") == "decimal":
        plain |= {key: described[key] for key in ("logicalType", "precision", "scale") if key in described}
    return plain


def _decoded_type(schema: Any, kind: pa.DataType) -> pa.DataType:
    """The Arrow type of decoded values: that of the column, with milliseconds where the schema has them."""
    if isinstance(schema, list):
        return _decoded_type(_branch(schema), kind)
    name, described = _kind(schema)
    if pa.types.is_timestamp(kind) and described.get("logicalType") in _MILLIS:
        return pa.timestamp("ms", kind.tz)
    if name == "record" and pa.types.is_struct(kind):
        inner = zip(described["fields"], kind, strict=True)
        return pa.struct([field.with_type(_decoded_type(avro["type"], field.type)) for avro, field in inner])
    if name == "array" and pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_decoded_type(described["items"], kind.value_type)))
    if name == "map" and pa.types.is_map(kind):
        return pa.map_(
            kind.key_field, kind.item_field.with_type(_decoded_type(described["values"], kind.item_type))
        )
    return kind
