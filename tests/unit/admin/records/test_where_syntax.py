"""The syntax of filter expressions: trees, errors with their position, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records.where_syntax import (
    DEPTH_MAX,
    LENGTH_MAX,
    STEPS_MAX,
    Comparison,
    Constant,
    Field,
    InvalidExpression,
    Joined,
    Literal,
    Node,
    Not,
    Present,
    Time,
    parse,
)

KEY, VALUE = Field("key"), Field("value")


def is_one(left: Field = KEY, at: int = 6) -> Comparison:
    return Comparison("=", left, Literal(1), at)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key = 1", is_one()),
        ("key == 1", is_one(at=7)),
        ("key=1", is_one(at=4)),
        ("value", Present(VALUE)),
        ("not value", Not(Present(VALUE))),
        ("NOT not value", Not(Not(Present(VALUE)))),
        ("key and value", Joined("and", (Present(KEY), Present(VALUE)))),
        ("key or value and key", Joined("or", (Present(KEY), Joined("and", (Present(VALUE), Present(KEY)))))),
        (
            "(key or value) and key",
            Joined("and", (Joined("or", (Present(KEY), Present(VALUE))), Present(KEY))),
        ),
        ("not key and value", Joined("and", (Not(Present(KEY)), Present(VALUE)))),
        ("timestamp > @-1h", Comparison(">", Field("timestamp"), Time("@-1h"), 12)),
        ("(timestamp>@2026-11-17T10:00)", Comparison(">", Field("timestamp"), Time("@2026-11-17T10:00"), 11)),
        ("value.a = value.b", Comparison("=", Field("value", ("a",)), Field("value", ("b",)), 10)),
    ],
)
def test_an_expression_is_parsed(text: str, expected: Node) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("value.total", ("total",)),
        ("value.and.or.not", ("and", "or", "not")),
        ("value.items[0].name", ("items", 0, "name")),
        ("value.items[*].name", ("items", None, "name")),
        ('value["a b"].c', ("a b", "c")),
        ("value['x.y']", ("x.y",)),
        ("value.2026", ("2026",)),
        ("value.größe", ("größe",)),
        ("headers.content-type", ("content-type",)),
        ('headers["x y"]', ("x y",)),
    ],
)
def test_the_steps_of_a_field_are_parsed(text: str, steps: tuple[str | int | None, ...]) -> None:
    assert parse(text) == Present(Field(text.partition(".")[0].partition("[")[0], steps))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("'it'", "it"),
        ('"it\'s"', "it's"),
        (r'"\n\t\\\"\u00e9"', '\n\t\\"é'),
        (r'"a\*b"', r"a\*b"),
        ("''", ""),
    ],
)
def test_a_constant_is_parsed(text: str, value: Constant) -> None:
    parsed = parse(f"key = {text}")
    assert isinstance(parsed, Comparison)
    assert isinstance(parsed.right, Literal)
    assert parsed.right.value == value
    assert type(parsed.right.value) is type(value)


@pytest.mark.parametrize(
    ("text", "message", "index"),
    [
        ("", "expected a field .* found the end", 0),
        ("key =", "expected a field .* found the end", 5),
        ("key = and", "text is written in quotes: 'and'", 6),
        ("value.type = goal", "text is written in quotes: 'goal'", 13),
        ("1 = key", "expected a field .* found '1'", 0),
        ("foo = 1", "expected a field .* found 'foo'", 0),
        ("key = 1 value", "expected 'and', 'or' or the end, found 'value'", 8),
        ("(key = 1", r"this \( has no \), found the end", 0),
        ("key = 1)", r"found '\)'", 7),
        ("key = 'x", "this quote is not closed", 6),
        (r"key = '\q'", "unknown escape", 7),
        ("key & value", "'&' is not part of the language", 4),
        ("value.", "a name follows the dot", 6),
        ("value[", "expected an index", 6),
        ("value[-1]", "expected an index", 6),
        ("value[0", "expected ], found the end", 7),
        ("offset.x = 1", "offset has no members", 6),
        ("headers = 1", "headers is followed by one name", 0),
        ("headers.a.b = 1", "headers is followed by one name", 0),
        ("timestamp > @soon", "'@soon' is not a time", 12),
        ("timestamp > @", "'@' is not part of the language", 12),
        ("key = 1x", "'1' is not part of the language", 6),
        ("key = " + "9" * 1000, "400 digits", 6),
        ("value" + ".a" * (STEPS_MAX + 1), "32 steps", 5 + 2 * STEPS_MAX),
    ],
)
def test_an_error_has_its_position(text: str, message: str, index: int) -> None:
    with pytest.raises(InvalidExpression, match=message) as caught:
        parse(text)
    assert caught.value.index == index
    assert f"character {index + 1}" in str(caught.value)


@pytest.mark.parametrize("opening", ["(", "not "])
def test_the_depth_is_limited(opening: str) -> None:
    closing = ")" if opening == "(" else ""
    parse(opening * DEPTH_MAX + "key" + closing * DEPTH_MAX)
    with pytest.raises(InvalidExpression, match="nested more than 50 deep"):
        parse(opening * (DEPTH_MAX + 1) + "key" + closing * (DEPTH_MAX + 1))


def test_the_length_is_limited() -> None:
    with pytest.raises(InvalidExpression, match="longer than 4000"):
        parse("key" + " " * LENGTH_MAX)
    assert isinstance(parse(" or ".join(["key"] * 500)), Joined)


words = st.sampled_from(
    [
        *"()[].*=<>~'\"\\@-",
        "key",
        "value",
        "headers",
        "and",
        "or",
        "not",
        "null",
        " ",
        "1",
        "1.5",
        "x",
        "!=",
        "@-1h",
    ]
)


@given(st.lists(words, max_size=30).map("".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    index = 0
    try:
        parse(text)
    except InvalidExpression as error:
        index = error.index
    assert 0 <= index <= len(text)
