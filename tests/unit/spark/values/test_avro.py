"""Avro values as columns, encoded by a writer in this test."""

from __future__ import annotations

import datetime
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import LocalError
from ottla.spark.values.avro import AvroReader, avro_ddl


def number(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


def record(*types: object) -> str:
    fields = [{"name": f"f{place}", "type": kind} for place, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def read(schema: str, kinds: list[Any], *values: bytes | None) -> tuple[list[list[Any]], list[bytes | None]]:
    fields = [pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)]
    typed, corrupt = AvroReader(schema, fields)(pa.array(values, pa.binary()))
    return [column.to_pylist() for column in typed], corrupt.to_pylist()


def one(kind: object, arrow: Any, value: bytes) -> Any:
    typed, corrupt = read(record(kind), [arrow], value)
    assert corrupt == [None]
    return typed[0][0]


def test_plain_types() -> None:
    assert one("boolean", pa.bool_(), b"\x01") is True
    assert one("float", pa.float32(), struct.pack("<f", 1.5)) == 1.5
    assert one("double", pa.float64(), struct.pack("<d", -2.25)) == -2.25
    assert one("string", pa.string(), text("gr\u00fcn")) == "gr\u00fcn"
    assert one("bytes", pa.binary(), text(b"\x00\xff")) == b"\x00\xff"
    assert one({"type": "fixed", "name": "x", "size": 2}, pa.binary(), b"ab") == b"ab"
    assert one({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string(), number(1)) == "B"
    assert one(["string", "null"], pa.string(), number(1)) is None
    assert one(["string"], pa.string(), number(0) + text("x")) == "x"


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers(value: int) -> None:
    assert one("long", pa.int64(), number(value)) == value


def test_logical_types() -> None:
    day = one({"type": "int", "logicalType": "date"}, pa.date32(), number(1))
    assert day == datetime.date(1970, 1, 2)
    stamp = pa.timestamp("us", "UTC")
    for name, value in (("timestamp-millis", 1500), ("timestamp-micros", 1_500_000)):
        found = one({"type": "long", "logicalType": name}, stamp, number(value))
        assert found.timestamp() == 1.5
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    assert one(decimal, pa.decimal128(6, 2), text(b"\xff\x00")) == Decimal("-2.56")


def test_nested_types() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "long"}]}
    numbers = {"type": "array", "items": inner}
    kind = pa.list_(pa.struct([("x", pa.int64())]))
    blocks = number(1) + number(5) + number(-2) + number(2) + number(6) + number(7) + number(0)
    assert one(numbers, kind, blocks) == [{"x": 5}, {"x": 6}, {"x": 7}]
    pairs = number(1) + text("k") + number(9) + number(0)
    assert one({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.int64()), pairs) == [("k", 9)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", b""),
        ("long", b"\xff" * 11),
        ("long", b"\x02\x02\x02"),
        ("string", number(5) + b"abc"),
        ("string", number(-1)),
        ("string", text(b"\xff")),
        ("double", b"1234"),
        (["null", "long"], number(2)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, number(1)),
        ({"type": "fixed", "name": "x", "size": 4}, b"abc"),
        ({"type": "array", "items": "long"}, number(2**40)),
        ({"type": "map", "values": "long"}, number(2**40)),
    ],
)
def test_what_does_not_fit_is_corrupt(kind: object, value: bytes) -> None:
    typed, corrupt = read(record(kind, "int"), [pa.null(), pa.int32()], value)
    assert typed == [[None], [None]]
    assert corrupt == [value]


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_corrupt(value: bytes) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    enum = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    kinds = [
        ["null", "string"],
        {"type": "array", "items": decimal},
        {"type": "map", "values": "double"},
        enum,
    ]
    arrow = [pa.string(), pa.list_(pa.decimal128(6, 2)), pa.map_(pa.string(), pa.float64()), pa.string()]
    typed, corrupt = read(record(*kinds), arrow, value)
    assert corrupt in ([None], [value])
    assert len(typed) == len(kinds)


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "found"),
    [
        ("boolean", pa.bool_(), b"\x02", True),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string(), number(-1), "B"),
        (["null", "long"], pa.int64(), number(-1) + number(4), 4),
        ("long", pa.int64(), b"\x80" * 11 + b"\x00", 0),
    ],
)
def test_malformed_encodings_that_fastavro_accepts(
    kind: object, arrow: Any, value: bytes, found: Any
) -> None:
    """Listed in docs/decisions/0016-avro.md. If this test fails, fastavro has become stricter: shorten the list."""
    assert one(kind, arrow, value) == found


def test_a_named_type_may_be_defined_twice() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "long"}]}
    kind = pa.struct([("x", pa.int64())])
    typed, corrupt = read(record(inner, inner), [kind, kind], number(1) + number(2))
    assert typed == [[{"x": 1}], [{"x": 2}]]
    assert corrupt == [None]


def test_milliseconds_inside_nested_types() -> None:
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    inner = {"type": "record", "name": "i", "fields": [{"name": "at", "type": ["null", stamp]}]}
    us = pa.timestamp("us", "UTC")
    kinds = [pa.list_(pa.struct([("at", us)])), pa.map_(pa.string(), us)]
    value = (
        number(1) + number(1) + number(1500) + number(0) + number(1) + text("k") + number(2500) + number(0)
    )
    schema = record({"type": "array", "items": inner}, {"type": "map", "values": stamp})
    typed, corrupt = read(schema, kinds, value)
    assert typed[0][0][0]["at"].timestamp() == 1.5
    assert typed[1][0][0][1].timestamp() == 2.5
    assert corrupt == [None]


def test_a_timestamp_outside_of_microseconds_is_corrupt() -> None:
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    fine, far = number(1500), number(2**62)
    typed, corrupt = read(record(stamp), [pa.timestamp("us", "UTC")], fine, far)
    assert typed[0][1] is None
    assert corrupt == [None, far]


def test_numbers_too_large_for_their_type_are_corrupt() -> None:
    fine, wide = number(1) + number(2), number(1) + number(2**40)
    typed, corrupt = read(record("long", "int"), [pa.int64(), pa.int32()], fine, wide, None)
    assert typed == [[1, None, None], [2, None, None]]
    assert corrupt == [None, wide, None]


def test_nothing_is_not_corrupt() -> None:
    typed, corrupt = read(record("long"), [pa.int64()], None, number(4))
    assert typed == [[None, 4]]
    assert corrupt == [None, None]


def test_schemas_as_ddl() -> None:
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": ["null", "float"]}]}
    kinds = [
        "int",
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "array", "items": inner},
        {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}},
    ]
    assert avro_ddl(record(*kinds)) == (
        "`f0` INT, `f1` TIMESTAMP, `f2` ARRAY<STRUCT<`x`: FLOAT>>, `f3` MAP<STRING, DECIMAL(9,1)>"
    )


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '"long"',
        '{"type":"array","items":"int"}',
        record(["int", "string"]),
        record("r2"),
        record("null"),
        record({"type": "array", "items": {"type": "fixed", "name": "x", "size": 0}}),
        record({"type": "array", "items": {"type": "record", "name": "x", "fields": []}}),
    ],
)
def test_schemas_that_cannot_be_read_are_refused(schema: str) -> None:
    with pytest.raises(LocalError, match="valueSchema"):
        avro_ddl(schema)
