"""Variable-length numbers as Kafka reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.primitives import packed, read_uvarint, unpacked, uuid_of, uuids_of, uvarint


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**31 - 1, "ffffffff07")],
)
def test_known_varints(value: int, raw: str) -> None:
    assert uvarint(value).hex() == raw
    assert read_uvarint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@given(st.integers(0, 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    assert read_uvarint(b"?" + uvarint(value), 1)[0] == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [("8000", 0), ("ffffffff0f", -1), ("808080800f", -(2**28)), ("8080808070", 0)],
    ids=["padded", "all bits", "sign bit", "bits beyond the 32nd"],
)
def test_odd_varints_wrap_as_in_kafka(raw: str, value: int) -> None:
    assert read_uvarint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="longer than 5 bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 1000])
def test_arrays_of_numbers(count: int) -> None:
    values = list(range(-3, count - 3))
    raw = packed("i", values)
    assert len(raw) == 4 * count
    assert unpacked("i", count, b"??" + raw, 2) == values


def test_uuids() -> None:
    made = Uuid(int=0x0102030405060708090A0B0C0D0E0F10)
    assert uuid_of(made.bytes) == made
    assert uuids_of(made.bytes + bytes(16)) == [made, ZERO_UUID]
