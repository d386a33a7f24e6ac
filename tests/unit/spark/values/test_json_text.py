"""JSON text with the syntax that Spark accepts by default, and values as Spark writes them."""

from __future__ import annotations

import pytest

from ottla.spark.values.json_text import Decimal, Pairs, Whole, compact, java_double, number, parse


def test_values_keep_what_spark_distinguishes() -> None:
    value = parse('{"a": 1, "b": 1.0, "a": [true, null, "1"]}')
    assert value == Pairs([("a", Whole("1")), ("b", Decimal("1.0")), ("a", [True, None, "1"])])
    assert isinstance(value, Pairs)
    assert [type(each) for _, each in value] == [Whole, Decimal, list]


@pytest.mark.parametrize(
    ("text", "standard"),
    [
        ("{'a': 'it\"s'}", '{"a":"it\\"s"}'),
        ("[+Infinity, +INF, -INF, NaN]", '["Infinity","Infinity","-Infinity","NaN"]'),
        ("{\"a\": \"+INF 'x'\", 'b': 1}", '{"a":"+INF \'x\'","b":1}'),
    ],
)
def test_single_quotes_and_numbers_that_are_not_finite(text: str, standard: str) -> None:
    assert compact(parse(text)) == standard


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1", "INF", "01", "1.", '{"a":1} x', '"\n"', "+1", "1" * 1_001, "[" * 100_000]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.5, "1.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (1234567.1, "1234567.1"),
        (12345678.9, "1.23456789E7"),
        (1e7, "1.0E7"),
        (-1e22, "-1.0E22"),
        (3.4028236e38, "3.4028236E38"),
        (5e-324, "5.0E-324"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_by_java(value: float, text: str) -> None:
    assert java_double(value) == text


def test_numbers_that_are_too_large_are_infinite() -> None:
    assert number(Whole("9" * 400)) == float("inf")
    assert number(Decimal("-1e400")) == float("-inf")
    assert number(Whole("-0")) == 0.0
