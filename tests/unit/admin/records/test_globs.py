"""Globs: compared with the standard library's translation, on text and on bytes."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records.globs import PATTERN_MAX, Glob, InvalidGlob


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("order-*", ["order-", "order-1"], ["order", "an order-1"]),
        ("*", ["", "x", "a\nb"], []),
        ("**", ["", "x"], []),
        ("a*b*c", ["abc", "a--b--c", "abbcc"], ["ab", "acb", "abcd"]),
        ("*error*", ["error", "an error occurred"], ["Error"]),
        ("a?c", ["abc", "aéc", "a\nc"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
        ("[!a-c]x", ["dx", "]x"], ["ax"]),
        ("[]]", ["]"], ["[", ""]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"a\*b", ["a*b"], ["axb"]),
        (r"\\", ["\\"], [""]),
        ("aa*aa", ["aaaa", "aaxaa"], ["aaa"]),
        ("", [""], ["x"]),
    ],
)
def test_a_pattern_matches_whole_inputs(pattern: str, matching: list[str], other: list[str]) -> None:
    glob = Glob(pattern)
    assert [text for text in matching + other if glob.matches(text)] == matching
    assert [text for text in matching + other if glob.matches(text.encode())] == matching


@pytest.mark.parametrize("pattern", ["a[b", "[", "[]", "[!]", "a\\", "[z-a]", "a" * (PATTERN_MAX + 1)])
def test_an_incomplete_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidGlob):
        Glob(pattern)


simple = st.text(alphabet="ab*?é", max_size=8)


@given(simple, st.text(alphabet="abcé\n", max_size=12))
def test_a_pattern_matches_as_in_the_standard_library(pattern: str, text: str) -> None:
    expected = re.match(fnmatch.translate(pattern), text) is not None
    assert Glob(pattern).matches(text) is expected
    assert Glob(pattern).matches(text.encode()) is expected


@given(simple, st.text(alphabet="abcé", max_size=12))
def test_every_match_contains_the_needle(pattern: str, text: str) -> None:
    glob = Glob(pattern)
    assert not glob.matches(text) or glob.needle in text.encode()


@given(st.text(alphabet="ab*?[]!-\\", max_size=12), st.binary(max_size=12))
def test_any_pattern_is_compiled_or_refused(pattern: str, data: bytes) -> None:
    try:
        glob = Glob(pattern)
    except InvalidGlob:
        return
    glob.matches(data)


def test_many_stars_need_no_backtracking() -> None:
    """With backtracking this would not end: each star can cover any part of the text."""
    assert not Glob("*a" * 400 + "*b").matches("a" * 100_000)
    assert not Glob("*a?" * 300 + "b").matches("a" * 100_000)


def test_bytes_that_are_not_utf_8_are_matched() -> None:
    assert Glob("a*b").matches(b"a\xff\x00b")
    assert Glob("a?b").matches(b"a\xffb")
