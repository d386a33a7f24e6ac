"""Typed values: what fits, what does not, and that no value leaks into another."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import LocalError
from ottla.spark.values.formats import JsonReader, read_strings, value_reader

FIELDS = [pa.field("a", pa.int64()), pa.field("b", pa.string())]


def rows_of(
    values: list[bytes | None], fields: Any = FIELDS
) -> tuple[list[tuple[object, ...]], list[bytes | None]]:
    columns, corrupt = JsonReader(fields)(pa.array(values, pa.binary()))
    for column, field in zip(columns, fields, strict=True):
        assert column.type == field.type
        assert len(column) == len(values)
    return list(zip(*(column.to_pylist() for column in columns), strict=True)), corrupt.to_pylist()


def test_objects_become_columns() -> None:
    rows, corrupt = rows_of([b'{"a":1,"b":"x"}', b'{"b":"y","c":[{}]}', b"{}", b" \n{ }", b"null", None])
    assert rows == [(1, "x"), (None, "y"), (None, None), (None, None), (None, None), (None, None)]
    assert corrupt == [None] * 6


@pytest.mark.parametrize(
    "fault",
    [
        b"",
        b"{",
        b"[1]",
        b"5",
        b'{"a":1}{"a":2}',
        b'{"a":1}\n{"a":2}',
        b'{"a":1},',
        b'{"a":"one"}',
        b'{"a":1.5}',
        b'{"a":99999999999999999999}',
        b'{"b":5}',
        b'{"a":1,"a":2}',
        b'{"a":{}',
        b'{"b":"}',
        b'{"c":[{}',
        b'{"c":[1,2,{"d":}',
        b'{"a":1},{"a":2}',
        b'{"a":1}}\n{"#":1,"v":{"a":2}',
        b'{"a":1}} {"#":1,"v":{"b":"',
        b'"}',
        b"\xff",
    ],
)
def test_a_fault_stays_alone(fault: bytes) -> None:
    good = [b'{"a":%d}' % number for number in range(9)]
    for place in (0, 4, 9):
        values: list[bytes | None] = [*good[:place], fault, *good[place:]]
        rows, corrupt = rows_of(values)
        assert [row[0] for row in rows] == [*range(place), None, *range(place, 9)]
        assert corrupt == [None] * place + [fault] + [None] * (9 - place)


_pieces = st.lists(
    st.sampled_from([b'{"a":', b"1", b"}", b'{"b":"', b'"', b",", b"[", b"]", b"{", b"null", b" ", b"\n"]),
    max_size=6,
).map(b"".join)


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=12) | _pieces, max_size=8))
def test_any_bytes_give_a_row_each(values: list[bytes]) -> None:
    rows, corrupt = rows_of(list(values))
    for value, row, fault in zip(values, rows, corrupt, strict=True):
        if fault is None:
            tree = json.loads(value) or {}
            assert row == (tree.get("a"), tree.get("b"))
        else:
            assert fault == value
            assert row == (None, None)


def test_times_dates_and_nested_values() -> None:
    fields = [
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("d", pa.date32()),
        pa.field("l", pa.list_(pa.struct([("x", pa.float64())]))),
        pa.field("m", pa.decimal128(10, 2)),
    ]
    value = b'{"t":"1970-01-01T01:00:01+01:00","d":"1970-01-03","l":[{"x":1.5},{}],"m":2.25}'
    columns, corrupt = JsonReader(fields)(pa.array([value], pa.binary()))
    assert columns[0].cast(pa.int64()).to_pylist() == [1_000_000]
    assert columns[1].cast(pa.int32()).to_pylist() == [2]
    assert columns[2].to_pylist() == [[{"x": 1.5}, {"x": None}]]
    assert [str(number) for number in columns[3].to_pylist()] == ["2.25"]
    assert corrupt.to_pylist() == [None]


def test_types_that_cannot_be_read_are_refused() -> None:
    for kind in (pa.map_(pa.string(), pa.int32()), pa.list_(pa.date32()), pa.struct([("d", pa.date32())])):
        with pytest.raises(LocalError, match="valueSchema"):
            JsonReader([pa.field("x", kind)])


def test_texts() -> None:
    columns, corrupt = read_strings(pa.array([b"x", None], pa.binary()))
    assert (columns[0].to_pylist(), corrupt.to_pylist()) == (["x", None], [None, None])
    columns, corrupt = read_strings(pa.array([b"x", None, b"\xff"], pa.binary()))
    assert (columns[0].to_pylist(), corrupt.to_pylist()) == (["x", None, None], [None, None, b"\xff"])
    assert value_reader("string", None, []) is read_strings
