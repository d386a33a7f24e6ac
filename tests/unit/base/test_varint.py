"""Variable-length numbers as Kafka reads and writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import (
    VarintCut,
    VarintTooLong,
    append_varint,
    decode_uvarints,
    encode_uvarint,
    read_uvarint,
    read_varint,
    uvarint_bytes,
)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**31 - 1, "ffffffff07")],
)
def test_known_uvarints(value: int, raw: str) -> None:
    assert encode_uvarint(value).hex() == raw
    assert uvarint_bytes(value) == len(raw) // 2
    assert read_uvarint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@given(st.integers(0, 2**31 - 1))
def test_uvarints_round_trip(value: int) -> None:
    assert read_uvarint(b"?" + encode_uvarint(value), 1)[0] == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [("8000", 0), ("ffffffff0f", -1), ("808080800f", -(2**28)), ("8080808070", 0)],
    ids=["padded", "all bits", "sign bit", "bits beyond the 32nd"],
)
def test_unusual_uvarints_wrap_as_in_kafka(raw: str, value: int) -> None:
    assert read_uvarint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


def test_a_uvarint_of_six_bytes_is_rejected() -> None:
    with pytest.raises(RemoteProtocolError, match="longer than 5 bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == encoded
    assert read_varint(out, 0, len(out)) == (value, len(out))


def test_varints_have_a_longest_form() -> None:
    assert read_varint(b"\x80\x80\x80\x80\x00", 0, 5) == (0, 5)
    with pytest.raises(VarintTooLong):
        read_varint(b"\x80\x80\x80\x80\x80\x00", 0, 6)
    assert read_varint(b"\x80" * 9 + b"\x01", 0, 10, 64) == (2**62, 10)
    with pytest.raises(VarintTooLong):
        read_varint(b"\x80" * 10 + b"\x00", 0, 11, 64)
    with pytest.raises(VarintCut):
        read_varint(b"\x80\x80", 0, 2)


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_a_sequence_of_uvarints_round_trips(values: list[int]) -> None:
    assert decode_uvarints(b"".join(map(encode_uvarint, values)), 9) == values


def test_a_sequence_of_uvarints_is_checked() -> None:
    with pytest.raises(VarintCut):
        decode_uvarints(b"\x01\x80", 9)
    with pytest.raises(VarintTooLong):
        decode_uvarints(b"\x80" * 9 + b"\x01", 9)


def test_a_varint_that_passes_the_end_of_its_record_is_cut() -> None:
    assert read_varint(b"\x80\x01\x02", 0, 2) == (64, 2)
    with pytest.raises(VarintCut):
        read_varint(b"\x80\x01\x02", 0, 1)
    with pytest.raises(VarintCut):
        read_varint(b"\x02", 0, 0)
