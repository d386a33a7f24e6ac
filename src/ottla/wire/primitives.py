"""Functions that generated readers and writers call: UUIDs, packed arrays, tagged fields, errors."""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import NoReturn

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.base.varint import Source, read_uvarint

# The length of a string has 16 bits in old versions, and Kafka keeps that limit in all versions.
STRING_BYTES_MAX = 0x7FFF
# A string of at most this many bytes has an encoding of at most `STRING_BYTES_MAX`, also if it is malformed: each byte
# can become U+FFFD, which has three bytes.
SHORT_STRING_BYTES = STRING_BYTES_MAX // 3
# An error message of at most this many characters can be encoded.
ERROR_MESSAGE_CHARACTERS_MAX = STRING_BYTES_MAX // 4
# Real messages have few tagged fields. An empty one costs its sender only two bytes.
TAGGED_FIELDS_MAX = 128


def skip_tags(frame: Source, position: int) -> int:
    """The position after a section of tagged fields, all of which are ignored. Raise IndexError if it is cut."""
    count = frame[position]
    if not count:
        return position + 1
    count, position = read_uvarint(frame, position)
    if count > TAGGED_FIELDS_MAX:
        raise RemoteProtocolError(
            f"{count} tagged fields in one section, at most {TAGGED_FIELDS_MAX} are allowed"
        )
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if not 0 <= size <= len(frame) - position:
            raise RemoteProtocolError("a tagged field is longer than the request")
        position += size
    return position


# The same topic ids occur again and again: creating a UUID costs ten times a lookup. A full cache has 1 MB.
@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> Uuid:
    """The UUID of 16 bytes."""
    return Uuid(bytes=raw)


def uuids_of(raw: bytes) -> list[Uuid]:
    """The UUIDs of an array's bytes."""
    return [uuid_of(raw[start : start + 16]) for start in range(0, len(raw), 16)]


@cache
def array_format(code: str, count: int) -> struct.Struct:
    """The layout of an array of `count` scalars; cached, so used for short arrays only."""
    return struct.Struct(f">{count}{code}")


def packed(code: str, values: list[int]) -> bytes:
    """Encode the elements of an array of scalars."""
    count = len(values)
    if count < 32:
        return array_format(code, count).pack(*values)
    return struct.pack(f">{count}{code}", *values)


def unpacked(code: str, count: int, data: Source, position: int) -> list[int]:
    """`count` scalars at a position; the caller has checked the size."""
    if count < 32:
        return list(array_format(code, count).unpack_from(data, position))
    return list(struct.unpack_from(f">{count}{code}", data, position))


def reject(why: str) -> NoReturn:
    """Raise the error for bytes that are not a valid message."""
    raise RemoteProtocolError(why)


def unwritable(why: str) -> NoReturn:
    """Raise the error for a message that cannot be encoded in the requested version."""
    raise LocalError(why)
