"""Walking over the batches in a log file without making an object for each.

All functions read ahead in chunks and parse headers in memory; a body is only read where it must be
checked. They take the end of the range from the caller, because bytes behind it may not be written yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.base.crc import crc32c
from ottla.base.files import File
from ottla.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)

_PLACE: Final = Struct(">qi11xi8xq")
"""Base offset, batch length, last offset delta, max timestamp: what finding a batch needs."""

_ANY: Final = -(1 << 63)
"""Below every offset and every timestamp."""
_WALK_CHUNK: Final = 64 * 1024
_VERIFY_CHUNK: Final = 1024 * 1024


class BatchPosition(NamedTuple):
    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def find_offset(file: File, position: int, end: int, offset: int, chunk: int) -> BatchPosition | None:
    """The first batch in [position, end) whose last offset is at or above `offset`."""
    return _find(file, position, end, chunk, offset, _ANY)


def find_timestamp(file: File, position: int, end: int, timestamp: int) -> BatchPosition | None:
    """The first batch in [position, end) that holds a record at or after `timestamp`."""
    return _find(file, position, end, _WALK_CHUNK, _ANY, timestamp)


def _find(
    file: File, position: int, end: int, chunk: int, offset: int, timestamp: int
) -> BatchPosition | None:
    """The first batch that has both, an offset and a timestamp at or above these."""
    unpack = _PLACE.unpack_from
    while end - position >= HEADER_SIZE:
        start = position
        data = file.pread(min(chunk, end - start), start)
        last = len(data) - HEADER_SIZE
        if last < 0:
            return None
        at = 0
        while at <= last:
            base_offset, length, delta, max_timestamp = unpack(data, at)
            if length < HEADER_SIZE - LOG_OVERHEAD:
                return None
            if base_offset + delta >= offset and max_timestamp >= timestamp:
                size = length + LOG_OVERHEAD
                return BatchPosition(start + at, size, base_offset, base_offset + delta, max_timestamp)
            at += length + LOG_OVERHEAD
        position = start + at
    return None


def walk(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch in [position, end) with its position. Bodies are not read.

    Stops at what cannot be a batch, and where offsets do not increase.
    """
    data, start = b"", position
    next_offset = 0
    while end - position >= HEADER_SIZE:
        at = position - start
        if at + HEADER_SIZE > len(data):
            data, start, at = file.pread(min(_WALK_CHUNK, end - position), position), position, 0
            if len(data) < HEADER_SIZE:
                return
        header = read_header(data, at)
        size = header.size_in_bytes
        if size < HEADER_SIZE or header.magic != MAGIC or size > end - position:
            return
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            return
        yield position, header
        next_offset = header.last_offset + 1
        position += size


def walk_verified(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch in [position, end) with a correct CRC, and its position; stops at the first that has not.

    Memory stays bounded whatever length a broken header claims: a batch longer than the chunk is summed
    piecewise.
    """
    data, start = memoryview(b""), position
    while end - position >= HEADER_SIZE:
        at = position - start
        if at + HEADER_SIZE > len(data):
            data, start, at = (
                memoryview(file.pread(min(_VERIFY_CHUNK, end - position), position)),
                position,
                0,
            )
            if len(data) < HEADER_SIZE:
                return
        header = read_header(data, at)
        size = header.size_in_bytes
        if (
            size < HEADER_SIZE
            or header.magic != MAGIC
            or size > end - position
            or header.last_offset_delta < 0
        ):
            return
        if at + size > len(data) and size <= _VERIFY_CHUNK:
            data, start, at = (
                memoryview(file.pread(min(_VERIFY_CHUNK, end - position), position)),
                position,
                0,
            )
        if at + size <= len(data):
            crc = crc32c(data[at + ATTRIBUTES_OFFSET : at + size])
        else:
            crc = _crc_of_file(file, position + ATTRIBUTES_OFFSET, position + size)
        if crc != header.crc:
            return
        yield position, header
        position += size


def _crc_of_file(file: File, position: int, end: int) -> int:
    crc: int = 0
    while position < end:
        data = file.pread(min(_VERIFY_CHUNK, end - position), position)
        if not data:
            return -1
        crc = crc32c(data, crc)
        position += len(data)
    return crc
