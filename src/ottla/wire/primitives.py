"""What generated readers and writers call: variable-length numbers, UUIDs, refusals, and packed arrays.

An unsigned varint carries seven bits per byte, lowest first; the high bit says that more follows. Kafka reads
it into 32 bits: a fifth byte's upper bits fall away, and the result is a signed number.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import NoReturn

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.base.ids import Uuid

Source = bytes | bytearray | memoryview

# A string's length field is 16 bits in old versions, and Kafka keeps that limit in all.
STRING_BYTES_MAX = 0x7FFF
# Real messages have a handful of tagged fields; a flood of empty ones costs the sender two bytes each.
TAGGED_FIELDS_MAX = 128

ONE_BYTE_UVARINTS = tuple(bytes((value,)) for value in range(128))


def uvarint(value: int) -> bytes:
    """An unsigned varint of 32 bits."""
    if value < 128:
        return ONE_BYTE_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_rest(data: Source, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte had its high bit set, as a signed 32-bit number; the position behind it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            value &= 0xFFFF_FFFF
            return (value - (1 << 32) if value >> 31 else value), position
    refuse("a varint is longer than 5 bytes")


def read_uvarint(data: Source, position: int) -> tuple[int, int]:
    """The varint at a position, and the position behind it."""
    first = data[position]
    return (first, position + 1) if first < 128 else uvarint_rest(data, position + 1, first)


# Topic ids come again and again: making the object costs ten times a look-up. A full cache holds 1 MB.
@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> Uuid:
    """The UUID of 16 bytes."""
    return Uuid(bytes=raw)


def uuids_of(raw: bytes) -> list[Uuid]:
    """The UUIDs of an array's bytes."""
    return [uuid_of(raw[start : start + 16]) for start in range(0, len(raw), 16)]


@cache
def array_format(code: str, count: int) -> struct.Struct:
    """The packed layout of an array of `count` scalars; asked only for the short arrays that repeat."""
    return struct.Struct(f">{count}{code}")


def packed(code: str, values: list[int]) -> bytes:
    """The elements of an array of scalars."""
    count = len(values)
    if count < 32:
        return array_format(code, count).pack(*values)
    return struct.pack(f">{count}{code}", *values)


def unpacked(code: str, count: int, data: Source, position: int) -> list[int]:
    """`count` scalars at a position; the caller made sure that they are there."""
    if count < 32:
        return list(array_format(code, count).unpack_from(data, position))
    return list(struct.unpack_from(f">{count}{code}", data, position))


def refuse(why: str) -> NoReturn:
    """Report that the peer's bytes are not a message."""
    raise RemoteProtocolError(why)


def unwritable(why: str) -> NoReturn:
    """Report that a message of ours cannot be written in the version asked for."""
    raise LocalError(why)
