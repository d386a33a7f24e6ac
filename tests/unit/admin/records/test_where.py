"""Evaluation of filter expressions, compared with a plain interpretation of the same tree."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records.globs import InvalidGlob
from ottla.admin.records.where import InvalidExpression, Needle, Row, compile_filter, key_filter

NOW = 1_794_909_600_000
HOUR_MS = 3_600_000
DOCUMENT = {
    "total": 3,
    "price": 1.5,
    "big": 2**70,
    "type": "goal",
    "live": True,
    "over": False,
    "note": None,
    "empty": "",
    "team": {"name": "Kekkonen", "players": [{"no": 7}, {"no": 10}]},
}
ROW = Row(
    "matches",
    2,
    41,
    NOW - HOUR_MS // 2,
    b"match-7",
    json.dumps(DOCUMENT).encode(),
    (("type", b"a"), ("type", b"b"), ("attempt", b"12"), ("none", None), ("retry", b"true")),
)
TOMBSTONE = Row("matches", 2, 42, -1, b"\xff\x00", None)
TEXT = Row("matches", 0, 43, 0, None, b"an error occurred")


def holds(text: str, row: Row = ROW) -> bool:
    return compile_filter(text, NOW).matches(row)


@pytest.mark.parametrize(
    "text",
    [
        "value.total = 3",
        "value.total = 3.0",
        "value.total >= 3 and value.total < 4",
        "value.price > 1",
        "value.big > 1e20",
        "value.type = 'goal'",
        "value.type != 'card'",
        "value.type > 'a'",
        "value.type ~ 'g*'",
        "value.type !~ 'x*'",
        "value.live",
        "value.live = true",
        "not value.over",
        "value.over = false",
        "value.note = null",
        "value.absent = null",
        "value.absent.deeper = null",
        "value.absent != 3",
        "value.empty",
        "value.empty != null",
        "value.team.name = 'Kekkonen'",
        "value.team['name'] = 'Kekkonen'",
        "value.team.players[1].no = 10",
        "value.team.players[2].no = null",
        "value.team.players[*].no = 10",
        "value.team.players[*].no != 11",
        "value.team.players[0].no < value.team.players[1].no",
        "value.type = value.type",
        "headers.type = headers.type",
        "value.team.players[*].no > value.total",
        "key = 'match-7'",
        "key ~ 'match-?'",
        "key.x = null",
        "key != null",
        "headers.type = 'a'",
        "headers.type = 'b'",
        "headers.type != 'c'",
        "headers.type",
        "headers.attempt > 5",
        "headers.attempt = 12",
        "headers.retry = true",
        "headers.none = null",
        "headers.absent = null",
        "offset = 41",
        "partition = 2",
        "topic = 'matches'",
        "topic ~ 'mat*'",
        "timestamp > @-1h",
        "timestamp < @now",
        "value ~ '*goal*'",
        "not (value.total = 4 or value.total = 5)",
    ],
)
def test_a_condition_that_holds(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "value.total = '3'",
        "value.total = true",
        "value.live = 1",
        "value.live > 0",
        "value.total > '2'",
        "value.type > 2",
        "value.absent < 3",
        "value.absent >= 3",
        "value.note",
        "value.absent",
        "value.over",
        "value.team = 'Kekkonen'",
        "value.team > 'A'",
        "value.team ~ '*'",
        "value.total ~ '3'",
        "value.total.x",
        "value.type[0]",
        "headers.type != 'a'",
        "headers.absent ~ '*'",
        "headers.absent",
        "headers.none",
        "headers.type > 5",
        "headers.attempt = true",
        "key = null",
        "key = 7",
        "timestamp > @now",
        "value.team.players[*].no != 10",
        "key = headers.type",
    ],
)
def test_a_condition_that_does_not_hold(text: str) -> None:
    assert not holds(text)


def test_tombstones_and_keys_that_are_not_text() -> None:
    assert holds("value = null", TOMBSTONE)
    assert holds("value.x = null", TOMBSTONE)
    assert not holds("value != null", TOMBSTONE)
    assert not holds("value ~ '*'", TOMBSTONE)
    assert not holds("value = ''", TOMBSTONE)
    assert holds("key ~ '*'", TOMBSTONE)
    assert not holds("key = 'x'", TOMBSTONE)
    assert holds("key = null", TEXT)


def test_a_value_that_is_not_json_has_no_members() -> None:
    assert holds("value ~ '*error*'", TEXT)
    assert not holds("value.error", TEXT)
    hostile = Row("t", 0, value=b"[" * 100_000)
    assert not holds("value[0]", hostile)
    assert holds("value ~ '[[]*'", hostile)


def test_an_absent_document_is_parsed_once_and_only_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr("ottla.admin.records.where._parse_json", lambda data: parsed.append(data) or {"a": 1})
    row = Row("t", 0, 5, value=b"{}")
    assert not holds("offset = 4 and value.a = 1", row)
    assert parsed == []
    assert holds("value.a = 1 and value.a = 1", row)
    assert parsed == [b"{}"]


@pytest.mark.parametrize(
    ("text", "message", "index"),
    [
        ("key ~ 5", "a pattern in quotes follows ~", 6),
        ("key ~ 'a['", "has a . without .", 6),
        ("key = value[*]", "left side only", 6),
    ],
)
def test_a_wrong_pattern_is_refused(text: str, message: str, index: int) -> None:
    with pytest.raises(InvalidExpression, match=message) as caught:
        compile_filter(text, NOW)
    assert caught.value.index == index


def test_a_filter_names_its_columns() -> None:
    assert compile_filter("key = 'a' or not value.b > headers.c", NOW).columns == {"key", "value", "headers"}
    assert compile_filter("offset > 5", NOW).columns == {"offset"}


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("key = 'abc'", [Needle("key", b"abc", False)]),
        ("value.type = 'goal' and value.x > 3", [Needle("value", b"goal", True)]),
        ("value ~ '*ab*cde*'", [Needle("value", b"cde", False)]),
        ("key = 'a' and value ~ '*b?'", [Needle("key", b"a", False)]),
        ("key = 'a' or value = 'b'", []),
        ("not key = 'a'", []),
        ("key != 'a'", []),
        ("key < 'a'", []),
        ("headers.x = 'a'", []),
        ("key = ''", []),
        ("key = 5", []),
        ("value.a = value.b", []),
    ],
)
def test_needles_are_texts_without_which_a_record_cannot_match(text: str, needles: list[Needle]) -> None:
    assert list(compile_filter(text, NOW).needles) == needles


def test_filters_are_combined() -> None:
    both = key_filter("match-*") & compile_filter("value.total = 3", NOW)
    assert both.matches(ROW)
    assert not both.matches(TOMBSTONE)
    assert both.columns == {"key", "value"}
    assert [needle.text for needle in both.needles] == [b"match-"]
    with pytest.raises(InvalidGlob):
        key_filter("[")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    [
        "key",
        "value",
        "value.a",
        "value.a.b",
        "value[0]",
        "value.a[*]",
        "key.a",
        "headers.h",
        "offset",
        "timestamp",
    ]
)
constants = st.sampled_from(
    ["1", "-1.5", "'a'", "''", "true", "false", "null", "@-1h", "value.b", "headers.h", "key"]
)
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
globs = st.sampled_from(["'*'", "'a*'", "'?'", "'[!a]*'"])
conditions = st.one_of(
    fields,
    st.tuples(fields, operators, constants).map(" ".join),
    st.tuples(fields, st.sampled_from(["~", "!~"]), globs).map(" ".join),
)
expressions = st.recursive(
    conditions,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) and ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) or ({two[1]})"),
    ),
    max_leaves=6,
)
contents = st.one_of(
    st.none(),
    st.binary(max_size=6),
    json_values.map(lambda value: json.dumps(value, allow_nan=False).encode()),
)
rows = st.builds(
    Row,
    st.just("t"),
    st.just(0),
    st.integers(0, 3),
    st.integers(-1, NOW),
    contents,
    contents,
    st.lists(st.tuples(st.sampled_from("hx"), st.none() | st.binary(max_size=3)), max_size=3),
)


@given(expressions, expressions, rows)
def test_evaluation_never_fails_and_follows_the_laws_of_logic(one: str, two: str, row: Row) -> None:
    first, second = holds(one, row), holds(two, row)
    assert holds(f"not ({one})", row) is not first
    assert holds(f"({one}) and ({two})", row) is (first and second)
    assert holds(f"({one}) or ({two})", row) is (first or second)


@given(fields, constants, rows)
def test_comparisons_are_consistent(field: str, constant: str, row: Row) -> None:
    def compare(operator: str) -> bool:
        return holds(f"{field} {operator} {constant}", row)

    assert compare("!=") is not compare("=")
    if "*" not in field and "headers" not in field + constant:
        assert not (compare("<") and compare(">"))
        assert not (compare("<") and compare("="))
        assert not compare("<") or compare("<=")
        assert not compare(">=") or compare(">") or compare("=")


@given(expressions, rows)
def test_a_record_that_matches_contains_the_needles(text: str, row: Row) -> None:
    compiled = compile_filter(text, NOW)
    if compiled.matches(row):
        for needle in compiled.needles:
            column = (row.key if needle.column == "key" else row.value) or b""
            assert needle.text in column or (needle.is_json and b"\\" in column)
