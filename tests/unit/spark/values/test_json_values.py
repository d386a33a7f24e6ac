"""JSON values as columns: what is corrupt, and that no value leaks into another."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import LocalError
from ottla.spark.values.json_values import JsonReader
from ottla.spark.values.times import UTC, Zone, parse_zone

FIELDS = [pa.field("a", pa.int64()), pa.field("b", pa.string())]


def rows_of(
    values: list[bytes | None], fields: Any = FIELDS
) -> tuple[list[tuple[object, ...]], list[bytes | None]]:
    columns, corrupt = JsonReader(fields, lambda: UTC)(pa.array(values, pa.binary()))
    for column, field in zip(columns, fields, strict=True):
        assert column.type == field.type
        assert len(column) == len(values)
    return list(zip(*(column.to_pylist() for column in columns), strict=True)), corrupt.to_pylist()


def test_objects_become_columns() -> None:
    rows, corrupt = rows_of([b'{"a":1,"b":"x"}', b'{"b":"y","c":[{}]}', b"{}", b" \n{ }", None])
    assert rows == [(1, "x"), (None, "y"), (None, None), (None, None), (None, None)]
    assert corrupt == [None] * 5


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
        b"null",
        b'{"b":"\xff"}',
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


def one_by_one(values: list[bytes], fields: Any = FIELDS) -> Any:
    """The same values, all converted in Python."""
    reader = JsonReader(fields, lambda: UTC)
    reader._has_fast_path = False
    columns, corrupt = reader(pa.array(values, pa.binary()))
    return list(zip(*(column.to_pylist() for column in columns), strict=True)), corrupt.to_pylist()


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=12) | _pieces, max_size=8))
def test_any_bytes_give_a_row_each(values: list[bytes]) -> None:
    rows, corrupt = rows_of(list(values))
    assert (rows, corrupt) == one_by_one(values)
    for value, row, fault in zip(values, rows, corrupt, strict=True):
        assert fault in (None, value)
        if fault is None:
            assert row[0] == json.loads(value).get("a")


def test_the_values_of_large_batches_do_not_depend_on_their_neighbours() -> None:
    values = [b'{"a":%d,"b":"x"}' % number for number in range(100)]
    values[7], values[50] = b'{"a":7,"b":7}', b'{"a":"x","b":"fifty"}'
    rows, corrupt = rows_of(list(values))
    assert rows == [
        (7, "7") if number == 7 else (None, "fifty") if number == 50 else (number, "x")
        for number in range(100)
    ]
    assert [number for number, value in enumerate(corrupt) if value is not None] == [50]


def test_times_dates_and_nested_values() -> None:
    fields = [
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("d", pa.date32()),
        pa.field("l", pa.list_(pa.struct([("x", pa.float64())]))),
        pa.field("m", pa.decimal128(10, 2)),
    ]
    value = b'{"t":"1970-01-01T01:00:01+01:00","d":"1970-01-03","l":[{"x":1.5},{}],"m":2.25}'
    columns, corrupt = JsonReader(fields, lambda: UTC)(pa.array([value], pa.binary()))
    assert columns[0].cast(pa.int64()).to_pylist() == [1_000_000]
    assert columns[1].cast(pa.int32()).to_pylist() == [2]
    assert columns[2].to_pylist() == [[{"x": 1.5}, {"x": None}]]
    assert [str(number) for number in columns[3].to_pylist()] == ["2.25"]
    assert corrupt.to_pylist() == [None]


ZONES = {
    "UTC": 1_704_164_645_000_000,
    "+02:00": 1_704_157_445_000_000,
    "America/New_York": 1_704_182_645_000_000,
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("neighbour", [b"2024-01-02T03:04:05", b"2024-01-02T00:00:00Z", b"2024"])
def test_a_time_without_a_zone_is_in_the_zone_of_the_session(zone: str, neighbour: bytes) -> None:
    """With and without the fast path, for which all times must have the same common form."""
    kind = pa.struct([("t", pa.list_(pa.timestamp("us", "UTC")))])
    reader = JsonReader([pa.field("s", kind)], lambda: parse_zone(zone) or UTC)
    values = [b'{"s":{"t":["2024-01-02T03:04:05"]}}', b'{"s":{"t":[null,"%s"]}}' % neighbour, b'{"s":null}']
    (column,), corrupt = reader(pa.array(values * 20, pa.binary()))
    assert corrupt.null_count == 60
    assert column[57]["t"].values.cast(pa.int64()).to_pylist() == [ZONES[zone]]
    assert column[58]["t"].values[0].as_py() is None
    assert column[59].as_py() is None


def test_the_zone_is_only_looked_up_if_it_is_needed() -> None:
    def unknown() -> Zone:
        raise LocalError("unknown")

    reader = JsonReader([pa.field("t", pa.timestamp("us", "UTC"))], unknown)
    zoned = pa.array(
        [b'{"t":"2024-01-02T03:04:05Z"}', b'{"t":"2024-01-02 03:04:05.5 UTC"}', b'{"t":5}'], pa.binary()
    )
    assert reader(zoned)[0][0].cast(pa.int64()).to_pylist() == [
        1_704_164_645_000_000,
        1_704_164_645_500_000,
        5_000_000,
    ]
    with pytest.raises(LocalError, match="unknown"):
        reader(pa.array([b'{"t":"2024-01-02T03:04:05"}'], pa.binary()))


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        ("2024-03-10T02:30:00", 1_710_055_800),  # in the gap
        ("2024-11-03T01:30:00", 1_730_611_800),  # the first of two
        ("1883-11-18T12:00:00", -2_717_651_038),
        ("2050-07-01T00:00:00", 2_540_260_800),
    ],
)
def test_unusual_local_times_are_those_of_java(local: str, instant: int) -> None:
    zone = parse_zone("America/New_York")
    assert zone is not None
    reader = JsonReader([pa.field("t", pa.timestamp("us", "UTC"))], lambda: zone)
    (column,), _ = reader(pa.array([f'{{"t":"{local}"}}'.encode()], pa.binary()))
    assert column.cast(pa.int64()).to_pylist() == [instant * 1_000_000]


def test_types_that_cannot_be_read_are_refused() -> None:
    for kind in (pa.duration("us"), pa.list_(pa.duration("us")), pa.map_(pa.int32(), pa.string())):
        with pytest.raises(LocalError, match=r"valueSchema: the type .* of x cannot be read from JSON"):
            JsonReader([pa.field("x", kind)], lambda: UTC)
