"""Java's rules for `.properties` files; the expected entries are what java.util.Properties reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import LocalError
from ottla.node.settings.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1\r\nb:2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a\t=\f1", {"a": "1"}),
        ("a==1", {"a": "=1"}),
        ("a= =1", {"a": "=1"}),
        ("a : = 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("=1", {"": "1"}),
        ("  # comment=1\n\t! also\n\n \n", {}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=1 ", {"a": "1 "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# still a value\nb=2", {"a": "1# still a value", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\u0041\\t\\n\\x\\\\", {"a": "A\t\nx\\"}),
        ("a=C:\\\\kafka", {"a": "C:\\kafka"}),
        ("a=1\\", {"a": "1"}),
        ("dir=/tm\u00e9", {"dir": "/tm\u00e9"}),
    ],
)
def test_entries(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(LocalError, match="hexadecimal"):
        parse_properties("a=\\u00g1")


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


_TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))


@given(st.dictionaries(_TEXTS, _TEXTS))
def test_escaped_characters_are_decoded(entries: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(name)}={_escaped(value)}" for name, value in entries.items())
    assert parse_properties(text) == entries


@given(st.text(alphabet="a=: \\\n\r\t#!u0041"))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except LocalError:
        assert "\\u" in text.replace("\n", "").replace("\r", "").replace(" ", "").replace("\t", "")
