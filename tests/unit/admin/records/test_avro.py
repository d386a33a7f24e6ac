"""Avro data, compared with fastavro, and hostile data and schemas."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records import avro
from ottla.admin.records.avro import AvroError, decode_container, decode_value, parse_schema

SCHEMA = {
    "type": "record",
    "name": "Match",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "home", "type": "string"},
        {"name": "score", "type": {"type": "array", "items": "int"}},
        {"name": "odds", "type": {"type": "map", "values": "double"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "OVER"]}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "live", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "before", "type": ["null", "org.example.Match"]},
        {"name": "again", "type": "State"},
    ],
}
matches: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "home": st.text(max_size=5),
            "score": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
            "odds": st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=3),
            "state": st.sampled_from(["OPEN", "OVER"]),
            "digest": st.binary(min_size=2, max_size=2),
            "note": st.none() | st.text(max_size=3),
            "live": st.booleans(),
            "raw": st.binary(max_size=4),
            "before": st.none() | matches,
            "again": st.just("OVER"),
        }
    )
)


def encoded(value: Any, schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def container(values: list[Any], codec: str = "null", schema: Any = SCHEMA) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), values, codec=codec)
    return out.getvalue()


@given(matches)
def test_a_value_is_decoded_as_by_fastavro(value: dict[str, Any]) -> None:
    assert decode_value(encoded(value), parse_schema(json.dumps(SCHEMA))) == value


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_a_container_is_decoded(codec: str) -> None:
    schema = {"type": "array", "items": "string"}
    values = [["a", "b"], [], ["c"] * 100]
    assert decode_container(container(values, codec, schema)) == values


@given(st.binary(max_size=60))
def test_any_data_are_decoded_or_refused(data: bytes) -> None:
    for schema in (
        SCHEMA,
        {"type": "array", "items": "null"},
        ["null", "int"],
        "string",
        {"type": "map", "values": "int"},
    ):
        try:
            decode_value(data, schema)
        except AvroError:
            continue


@given(st.integers(0, 400), st.binary(max_size=3))
def test_any_damaged_container_is_decoded_or_refused(position: int, damage: bytes) -> None:
    data = container([["a", "b"], ["c"]], schema={"type": "array", "items": "string"})
    try:
        decode_container(data[:position] + damage + data[position + len(damage) :])
    except AvroError:
        return


@pytest.mark.parametrize(
    "schema",
    [
        '"unknown"',
        "5",
        "{",
        "{}",
        '{"type": "record", "name": "A"}',
        '{"type": "record", "fields": []}',
        '{"type": "record", "name": "A", "fields": [{"name": "b"}]}',
        '{"type": "fixed", "name": "A", "size": -1}',
        '{"type": "enum", "name": "A"}',
        '{"type": "array"}',
        "[" * 5000,
        "[" * 80 + '"int"' + "]" * 80,
        '["int", null]',
    ],
)
def test_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(AvroError):
        parse_schema(schema)


def test_an_array_of_nothing_cannot_be_endless() -> None:
    """Its elements take no bytes, so its length is not limited by the data."""
    schema = {"type": "array", "items": "null"}
    data = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(AvroError, match="more than 200000 values"):
        decode_value(data, schema)


def test_a_value_that_contains_itself_without_end_is_refused() -> None:
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}
    with pytest.raises(AvroError, match="nested"):
        decode_value(b"", schema)


def test_a_block_that_grows_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = container([b"\x00" * 100_000], "deflate", "bytes")
    assert len(data) < 2000
    assert decode_container(data) == [b"\x00" * 100_000]
    monkeypatch.setattr(avro, "BLOCK_BYTES_MAX", 10_000)
    with pytest.raises(AvroError, match="more than 10000 bytes"):
        decode_container(data)
