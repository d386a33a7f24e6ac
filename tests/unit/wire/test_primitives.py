"""Packed arrays, UUIDs and sections of tagged fields."""

from __future__ import annotations

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.primitives import packed, skip_tags, unpacked, uuid_of, uuids_of


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        ("00", 1),
        ("01" + "0902ffff", 5),
        ("02" + "0100" + "0201ff", 6),
        ("8100" + "0100", 4),
        ("ffffffff0f", 5),
    ],
    ids=["none", "one", "two", "padded count", "negative count"],
)
def test_tagged_fields_are_skipped(raw: str, end: int) -> None:
    assert skip_tags(memoryview(b"?" + bytes.fromhex(raw) + b"rest"), 1) == 1 + end


@pytest.mark.parametrize(
    "raw",
    ["01" + "0905ffff", "01" + "09ffffffff07", "01" + "09ffffffff0f"],
    ids=["cut", "far beyond the end", "negative size"],
)
def test_a_tagged_field_beyond_the_end_is_rejected(raw: str) -> None:
    with pytest.raises(RemoteProtocolError, match="tagged field"):
        skip_tags(bytes.fromhex(raw), 0)


@pytest.mark.parametrize(
    "raw", ["", "01", "0109", "02" + "0900"], ids=["empty", "no tag", "no size", "count"]
)
def test_a_cut_section_of_tagged_fields_raises_index_error(raw: str) -> None:
    with pytest.raises(IndexError):
        skip_tags(bytes.fromhex(raw), 0)


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


def test_too_many_tagged_fields_are_rejected() -> None:
    """A frame of 100 MiB has space for 50 million of them, also in the header of an anonymous client."""
    allowed = bytes.fromhex("8001") + b"\x09\0" * 128
    assert skip_tags(allowed, 0) == len(allowed)
    with pytest.raises(RemoteProtocolError, match="129 tagged fields"):
        skip_tags(bytes.fromhex("8101") + b"\x09\0" * 129, 0)
