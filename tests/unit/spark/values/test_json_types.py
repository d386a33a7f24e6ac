"""Types of JSON values as in Spark's `from_json`; `tests/spark/test_source_json.py` compares all of them with Spark."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark.values.json_text import parse
from ottla.spark.values.json_types import Partial, WrongType, converter, record_converter
from ottla.spark.values.times import UTC


def convert(kind: pa.DataType, text: str) -> Any:
    return converter("x", kind, lambda: UTC)(parse(text))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.string(), "1.50", "1.5"),
        (pa.string(), "true", "true"),
        (pa.string(), '{"a": [1, 2]}', '{"a":[1,2]}'),
        (pa.string(), '"\\ud800"', "?"),
        (pa.int8(), "200", -56),
        (pa.int64(), "-0", 0),
        (pa.float64(), "1e400", float("inf")),
        (pa.float32(), '"-INF"', float("-inf")),
        (pa.float32(), "3.4028236e38", float("inf")),
        (pa.decimal128(6, 2), "2.255", decimal.Decimal("2.26")),
        (pa.decimal128(6, 2), '"1,234.5"', decimal.Decimal("1234.50")),
        (pa.binary(), '"YWJj"', b"abc"),
        (pa.date32(), '"2024-01-02T25:00"', 19_724),
        (pa.timestamp("us", "UTC"), "5", 5_000_000),
        (pa.timestamp("us", "UTC"), "9223372036854775807", -1_000_000),
        (pa.timestamp("us"), '"1970-01-01 00:00:01"', 1_000_000),
        (pa.map_(pa.string(), pa.int32()), '{"a":1,"a":2}', [("a", 1), ("a", 2)]),
        (pa.list_(pa.int32()), "[1,null]", [1, None]),
        (pa.struct([("a", pa.int32())]), '{"a":1,"a":2,"b":3}', {"a": 2}),
        (pa.int32(), "null", None),
    ],
)
def test_a_value_of_the_type(kind: pa.DataType, text: str, value: Any) -> None:
    assert convert(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.boolean() if hasattr(pa, "boolean") else pa.bool_(), '"true"'),
        (pa.int8(), "256"),
        (pa.int32(), "1.0"),
        (pa.int32(), '"1"'),
        (pa.int64(), "9223372036854775808"),
        (pa.float64(), '"1.5"'),
        (pa.decimal128(6, 2), "9999.995"),
        (pa.decimal128(6, 2), "1e999999999"),
        (pa.decimal128(6, 2), '" 1"'),
        (pa.binary(), '"YWJ"'),
        (pa.binary(), "1"),
        (pa.date32(), "19724"),
        (pa.timestamp("us"), '"1970-01-01 00:00:01Z"'),
        (pa.timestamp("us", "UTC"), "1.5"),
        (pa.list_(pa.int32()), '[1,"x"]'),
        (pa.list_(pa.int32()), "{}"),
        (pa.map_(pa.string(), pa.int32()), "[]"),
        (pa.struct([("a", pa.int32())]), "[]"),
    ],
)
def test_a_value_of_another_type(kind: pa.DataType, text: str) -> None:
    with pytest.raises(WrongType):
        convert(kind, text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), '{"a":"x","b":"y"}', {"a": None, "b": "y"}),
        (pa.list_(pa.struct([("a", pa.int32())])), '[{"a":1},{"a":"x"}]', [{"a": 1}, {"a": None}]),
        (pa.map_(pa.string(), pa.struct([("a", pa.int32())])), '{"k":{"a":"x"}}', [("k", {"a": None})]),
    ],
)
def test_the_other_parts_of_a_value_are_kept(kind: pa.DataType, text: str, value: Any) -> None:
    with pytest.raises(Partial) as raised:
        convert(kind, text)
    assert raised.value.value == value


def test_the_other_fields_of_a_record_are_kept() -> None:
    whole = record_converter([pa.field("a", pa.int32()), pa.field("b", pa.string())], lambda: UTC)
    with pytest.raises(Partial) as raised:
        whole(parse('{"a":"x","b":1}'))
    assert raised.value.value == [None, "1"]
