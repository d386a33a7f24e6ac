"""Keys and values for display: the form that is chosen, limits, hostile data."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records import avro
from ottla.admin.records.decode import DEPTH_MAX, Decoder, Form, printable
from tests.unit.admin.records.test_avro import container, encoded

POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}],
}


def auto(data: bytes | None) -> tuple[str, object]:
    found = Decoder().decode(data)
    return found.kind, found.value


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (None, "null", None),
        (b"", "text", ""),
        (b"hello", "text", "hello"),
        ("größe\n\t".encode(), "text", "größe\n\t"),
        (b'{"a": [1, 2.5, null]}', "json", {"a": [1, 2.5, None]}),
        (b"[]", "json", []),
        (b"42", "text", "42"),
        (b'{"a": 1', "text", '{"a": 1'),
        (b"\x00\x01", "hex", "0001"),
        (b"ok\xff", "hex", "6f6bff"),
        (b"\x1b[31mred", "hex", "1b5b33316d726564"),
        (msgspec.msgpack.encode({"a": 1}), "msgpack", {"a": 1}),
        (msgspec.msgpack.encode([1, 2]), "hex", "920102"),
        (b"\x81\x00", "hex", "8100"),
        # A container has a random marker: each process would give these parameters other names.
        pytest.param(container([{"x": 1, "y": 2}], schema=POINT), "avro", {"x": 1, "y": 2}, id="one object"),
        pytest.param(
            container([{"x": 1, "y": 2}] * 2, schema=POINT), "avro", [{"x": 1, "y": 2}] * 2, id="two objects"
        ),
        (b"Obj\x01broken", "hex", b"Obj\x01broken".hex()),
    ],
)
def test_auto_chooses_a_form(data: bytes | None, kind: str, value: object) -> None:
    assert auto(data) == (kind, value)


def test_a_form_that_does_not_fit_leaves_a_note() -> None:
    for form in (Form.JSON, Form.AVRO, Form.MSGPACK):
        found = Decoder(form).decode(b"\xc1hello")
        assert (found.kind, found.value) == ("hex", b"\xc1hello".hex())
        assert found.note is not None
        assert found.note.startswith(f"not {form}: ")
    assert Decoder(Form.JSON).decode(b"hello").value == "hello"
    assert Decoder(Form.TEXT).decode(b"a\xff").value == "a\ufffd"
    assert Decoder(Form.HEX).decode(b"a\xff").value == "61ff"


def test_json_scalars_are_documents_if_json_is_requested() -> None:
    found = Decoder(Form.JSON).decode(b" 42 ")
    assert (found.kind, found.value, found.text()) == ("json", 42, "42")


def test_avro_with_a_schema() -> None:
    decoder = Decoder(Form.AVRO, schema=avro.parse_schema(json.dumps(POINT)))
    value = {"x": 0, "y": -3}
    plain = encoded(value, POINT)
    assert plain[0] == 0
    for data in (plain, b"\xc3\x01" + bytes(8) + plain, b"\x00\x00\x00\x00\x07" + plain):
        assert decoder.decode(data).value == value


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"\xc3\x01abcdefgh\x02", "fingerprint 6162636465666768"),
        (b"\x00\x00\x00\x00\x07\x02", "schema 7 of a registry"),
        (b"\x02", "the schema is needed"),
    ],
)
def test_avro_without_a_schema_leaves_a_note(data: bytes, note: str) -> None:
    found = Decoder(Form.AVRO).decode(data)
    assert found.kind == "hex"
    assert note in (found.note or "")


def test_types_that_json_does_not_have() -> None:
    value = {
        "bytes": b"\xff",
        "time": datetime(2026, 11, 17, tzinfo=UTC),
        "ext": msgspec.msgpack.Ext(5, b"\x01"),
        "infinite": float("inf"),
        "members": {1: "a"},
    }
    found = Decoder(Form.MSGPACK).decode(msgspec.msgpack.encode(value))
    assert found.note is None
    assert json.loads(found.text()) == {
        "bytes": "ff",
        "time": "2026-11-17T00:00:00+00:00",
        "ext": {"type": 5, "data": "01"},
        "infinite": "inf",
        "members": {"1": "a"},
    }


def test_large_data_are_cut_off() -> None:
    decoder = Decoder(size_max=10)
    found = decoder.decode(b'{"a": "0123456789"}')
    assert (found.kind, found.value, found.note) == ("text", '{"a": "012', "the first 10 of 19 bytes")
    assert decoder.decode("123456789é1".encode()).value == "123456789"
    assert decoder.decode(b"\xff" * 20).value == "ff" * 10
    assert Decoder(Form.HEX, size_max=10).decode(b"a" * 20).value == "61" * 10


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 900, 100_000])
def test_deep_documents_are_shown_as_text(depth: int) -> None:
    data = b"[" * depth + b"]" * depth
    found = Decoder().decode(data)
    assert (found.kind, found.value) == ("text", data.decode())
    assert Decoder(Form.MSGPACK).decode(b"\x91" * depth + b"\x01").kind == "hex"
    assert Decoder().decode(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX).kind == "json"


@given(
    st.binary(max_size=40) | st.text(alphabet='{}[]",:1ae\\ ', max_size=20).map(str.encode),
    st.sampled_from(Form),
)
def test_anything_is_shown(data: bytes, form: Form) -> None:
    for size_max in (5, 1000):
        found = Decoder(form, size_max=size_max).decode(data)
        found.text()
        found.text(indent=2)


def test_a_document_is_one_line_unless_it_is_indented() -> None:
    found = Decoder().decode(b'{"a":\n{"b": 1}}')
    assert found.text() == '{"a":{"b":1}}'
    assert found.text(indent=2) == '{\n  "a": {\n    "b": 1\n  }\n}'
    assert Decoder().decode(None).text() == ""


def test_a_text_is_made_safe_for_a_terminal() -> None:
    assert printable("a\x1b[31m\x07\tb\nc\u202ed\x9b\r") == "a\\x1b[31m\\x07\tb\nc\\u202ed\\x9b\\r"
    assert printable("größe 😀") == "größe 😀"
