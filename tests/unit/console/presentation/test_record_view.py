"""Records for display: inert, limited, with colours for JSON."""

from __future__ import annotations

import pytest

from ottla.admin.records.decode import Form
from ottla.admin.records.scan import ConsumedRecord
from ottla.console.presentation.record_view import (
    HEX_BYTES_MAX,
    PREVIEW_CHARS,
    coloured,
    form_of,
    hex_dump,
    show_record,
)


def record(value: bytes | None, key: bytes | None = b"k") -> ConsumedRecord:
    return ConsumedRecord("t", 0, 1, 2, 0, key, value, (("h", b"<i>"), ("n", None)))


def test_json_is_indented_and_coloured() -> None:
    shown = show_record(record(b'{"a":[1,true],"b":"x"}')).value
    assert shown.kind == "json"
    assert shown.preview == '{"a":[1,true],"b":"x"}'
    assert '<span class="j-name">&#34;a&#34;</span>' in shown.markup
    assert '<span class="j-number">1</span>' in shown.markup
    assert '<span class="j-word">true</span>' in shown.markup


@pytest.mark.parametrize("form", [Form.AUTO, Form.JSON, Form.TEXT, Form.HEX])
@pytest.mark.parametrize(
    "value",
    [
        b"<script>alert(1)</script>",
        b'{"<img src=x onerror=alert(1)>": "</pre><script>"}',
        b"\xff\xfe\x00" * 1000,
        b"[" * 100_000,
        b'"' + b"\\" * 5001,
        "a\u202eb".encode(),
        b"",
        b"x" * 3_000_000,
    ],
)
def test_hostile_values_are_escaped_and_limited(value: bytes, form: Form) -> None:
    shown = show_record(record(value), form).value
    assert "<script" not in shown.markup
    assert "<img" not in shown.markup
    assert "\u202e" not in shown.markup
    assert len(shown.preview) <= PREVIEW_CHARS + 1
    assert len(shown.text) < 200_000


def test_a_long_value_says_that_it_is_cut() -> None:
    shown = show_record(record(b"x" * 100_000), bytes_max=1_000).value
    assert shown.cut
    assert "1000" in shown.note.replace(",", "")
    assert not show_record(record(b"x")).value.cut


def test_null_is_not_an_empty_value() -> None:
    assert show_record(record(None)).value.kind == "null"
    assert show_record(record(b"")).value.kind == "text"
    assert show_record(record(b"", key=None)).key.kind == "null"
    assert [header.kind for _, header in show_record(record(b"")).headers] == ["text", "null"]


def test_hexadecimal_has_offsets_bytes_and_characters() -> None:
    assert hex_dump(b"Ottla\x00\xff") == "00000000  4f 74 74 6c 61 00 ff" + " " * 27 + "  Ottla.."
    assert hex_dump(b"") == ""
    shown = show_record(record(bytes(HEX_BYTES_MAX + 1)), Form.HEX).value
    assert shown.cut


def test_colours_keep_the_text() -> None:
    for text in ('{"a": "b\\"c", "d": -1.5e3}', "plain", '"unterminated', "<&>"):
        from markupsafe import Markup

        assert Markup(coloured(text)).striptags() == " ".join(Markup.escape(text).unescape().split())  # noqa: S704


def test_a_cut_text_with_many_quotes_is_read_once() -> None:
    """A pattern that tried every quote again would not end."""
    for end in ("", "\\", '"', "\\n"):
        text = '"' + '\\"' * 300_000 + end
        assert coloured(text).count("<span") == 1


def test_forms_of_addresses() -> None:
    assert form_of("hex") is Form.HEX
    assert form_of("avro") is Form.AUTO
    assert form_of("../") is Form.AUTO
