"""The kernel in plain Python: the specification of `_kernel.pyx`. Tests compare the two.

`check_batch` checks the structure of a produced batch in one call; `walk` is its part for a
records section alone, for batches that had to be unpacked first. Both check every length before they use it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.crc import crc32c
from ottla.base.varint import VarintCut, VarintTooLong, read_varint
from ottla.records.batch import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    RECORDS_OFFSET,
    TIMESTAMP_MAX,
    Buffer,
    header_of,
)
from ottla.records.verdict import Verdict

Walk = tuple[int, int, int, int, bool]
"""verdict, max timestamp, min timestamp, records without a key, whether offset deltas count 0, 1, 2, …"""

Check = tuple[int, tuple[int, ...] | None, int, int, int, bool]
"""verdict, header fields in wire order (None unless sound), the walk's results (if not packed)."""

_LENGTH_MIN = 14
_HEADER_TO_MAGIC = MAGIC_OFFSET + 1
_PRODUCER_ID_END = 51
_CODEC_ZSTD = 4
_UNREADABLE = -1
_CUT = -2


def walk(buf: Buffer, start: int, end: int, count: int, base_timestamp: int, *, strict: bool) -> Walk:
    """Go over `count` records that must fill buf[start:end] exactly.

    `strict` also checks the declared length of every record, as Kafka does except for batches that stay compressed.
    The max starts at NO_TIMESTAMP; the min ignores records without a timestamp.
    """
    max_timestamp, min_timestamp, keyless, sequential = NO_TIMESTAMP, TIMESTAMP_MAX, 0, True
    position = start
    for index in range(count):
        size, position = _varint(buf, position, end, 32)
        if position == _UNREADABLE:
            verdict = Verdict.RECORD_LENGTH_UNREADABLE if strict else Verdict.RECORD_MALFORMED
            return verdict, 0, 0, 0, False
        if position < 0 or (strict and not 0 < size <= end - position):
            return Verdict.RECORD_MALFORMED, 0, 0, 0, False
        record_end = position + size if strict else end
        delta, position = _varint(buf, position + 1, record_end, 64)
        offset_delta, position = _varint(buf, position, record_end, 32)
        key_size, position = _varint(buf, position, record_end, 32)
        position = _rest_of_record(buf, _skip(position, key_size, record_end), record_end)
        if position < 0 or (strict and position != record_end):
            return Verdict.RECORD_MALFORMED, 0, 0, 0, False
        timestamp = wrap_long(base_timestamp + delta)
        max_timestamp = max(max_timestamp, timestamp)
        if timestamp != NO_TIMESTAMP:
            min_timestamp = min(min_timestamp, timestamp)
        keyless += key_size < 0
        sequential = sequential and offset_delta == index
    if position != end:
        return Verdict.RECORDS_LEFT_OVER, 0, 0, 0, False
    return Verdict.OK, max_timestamp, min_timestamp, keyless, sequential


def scan(buf: Buffer, start: int, end: int, count: int, base_timestamp: int) -> Iterator[tuple[int, bool]]:
    """Timestamp and "has a key" of each record of a section that `walk` found sound."""
    position = start
    for _ in range(count):
        _, position = _varint(buf, position, end, 32)
        delta, position = _varint(buf, position + 1, end, 64)
        _, position = _varint(buf, position, end, 32)
        key_size, position = _varint(buf, position, end, 32)
        position = _rest_of_record(buf, _skip(position, key_size, end), end)
        yield wrap_long(base_timestamp + delta), key_size >= 0


def _rest_of_record(buf: Buffer, position: int, end: int) -> int:
    """Past value and headers; negative where they are malformed."""
    size, position = _varint(buf, position, end, 32)
    position = _skip(position, size, end)
    headers, position = _varint(buf, position, end, 32)
    if position < 0 or headers < 0:
        return _CUT
    for _ in range(headers):
        size, position = _varint(buf, position, end, 32)
        if size < 0:
            return _CUT
        position = _skip(position, size, end)
        size, position = _varint(buf, position, end, 32)
        position = _skip(position, size, end)
        if position < 0:
            return _CUT
    return position


def _varint(buf: Buffer, position: int, end: int, bits: int) -> tuple[int, int]:
    """Zig-zag value and where it ends: _CUT if the bytes end early (or did before), _UNREADABLE if too long.

    Bits beyond the width are dropped.
    """
    if position < 0:
        return 0, _CUT
    try:
        return read_varint(buf, position, end, bits)
    except VarintCut:
        return 0, _CUT
    except VarintTooLong:
        return 0, _UNREADABLE


def _skip(position: int, size: int, end: int) -> int:
    if position < 0 or size <= 0:
        return position
    return position + size if size <= end - position else _CUT


def wrap_long(value: int) -> int:
    """To 64 bits, as Java adds longs."""
    return (value + 0x8000_0000_0000_0000 & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def check_batch(buf: Buffer, max_message_bytes: int, zstd_allowed: bool) -> Check:
    """Everything about the structure of a partition's produce data, in Kafka's order of checks."""
    verdict, size = frame(buf, 0)
    if verdict == Verdict.OK:
        verdict = check_request(buf, size, zstd_allowed)
    if verdict != Verdict.OK:
        return verdict, None, 0, 0, 0, False
    verdict = _check_bytes(buf, size, max_message_bytes)
    if verdict != Verdict.OK:
        return verdict, None, 0, 0, 0, False
    header = HEADER.unpack_from(buf, 0)
    verdict = _check_header(header)
    if verdict != Verdict.OK:
        return verdict, None, 0, 0, 0, False
    attributes, base_timestamp, count = header[5], header[7], header[12]
    if attributes & CODEC_MASK:
        return verdict, header, NO_TIMESTAMP, TIMESTAMP_MAX, 0, True
    walked = walk(buf, RECORDS_OFFSET, size, count, base_timestamp, strict=True)
    if walked[0] != Verdict.OK:
        return walked[0], None, 0, 0, 0, False
    return verdict, header, *walked[1:]


def frame(buf: Buffer, position: int) -> tuple[Verdict, int]:
    """The size of the batch at `position`; NO_BATCH if it is not all there."""
    remaining = len(buf) - position
    if remaining < LOG_OVERHEAD:
        return Verdict.NO_BATCH, 0
    length = int.from_bytes(buf[position + 8 : position + 12], "big", signed=True)
    if length < _LENGTH_MIN:
        return Verdict.LENGTH_TOO_SMALL, 0
    if remaining < _HEADER_TO_MAGIC:
        return Verdict.NO_BATCH, 0
    if buf[position + MAGIC_OFFSET] > MAGIC:
        return Verdict.MAGIC_UNKNOWN, 0
    if remaining < length + LOG_OVERHEAD:
        return Verdict.NO_BATCH, 0
    return Verdict.OK, length + LOG_OVERHEAD


def check_request(buf: Buffer, size: int, zstd_allowed: bool) -> Verdict:
    """Whether the data are one batch, of `size` bytes, that the version of the request may contain."""
    if buf[MAGIC_OFFSET] != MAGIC:
        return Verdict.MAGIC_OLD
    if not zstd_allowed:
        codec = buf[ATTRIBUTES_OFFSET + 1] & CODEC_MASK
        if codec >= _CODEC_ZSTD:
            return Verdict.ZSTD_TOO_EARLY if codec == _CODEC_ZSTD else Verdict.CODEC_UNKNOWN
    following, _ = frame(buf, size)
    if following == Verdict.NO_BATCH:
        return Verdict.OK
    return Verdict.SECOND_BATCH if following == Verdict.OK else following


def _check_bytes(buf: Buffer, size: int, max_message_bytes: int) -> Verdict:
    if size < _PRODUCER_ID_END:
        return Verdict.PRODUCER_ID_CUT
    if any(buf[:8]):
        return Verdict.BASE_OFFSET_NOT_ZERO
    if size > max_message_bytes:
        return Verdict.TOO_LARGE
    if size < HEADER_SIZE:
        return Verdict.HEADER_CUT
    if crc32c(memoryview(buf)[ATTRIBUTES_OFFSET:size]) != int.from_bytes(buf[17:21], "big"):
        return Verdict.CRC_WRONG
    return Verdict.OK


def _check_header(fields: tuple[int, ...]) -> Verdict:
    header = header_of(fields)
    faults = (
        (header.compression > _CODEC_ZSTD, Verdict.CODEC_UNKNOWN),
        (header.last_offset_delta < 0, Verdict.OFFSET_RANGE_INVALID),
        (header.records_count <= 0, Verdict.COUNT_INVALID),
        (header.last_offset_delta + 1 != header.records_count, Verdict.COUNT_INCONSISTENT),
        (header.is_control, Verdict.CONTROL_FROM_CLIENT),
        (header.has_producer_id and header.base_sequence < 0, Verdict.SEQUENCE_INVALID),
    )
    return next((verdict for found, verdict in faults if found), Verdict.OK)


def murmur2(buf: Buffer) -> int:
    """The hash of Kafka's default partitioner, as an unsigned number of 32 bits."""
    length = len(buf)
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(buf[position : position + 4], "little") * multiplier & mask
        k = (k ^ k >> 24) * multiplier & mask
        h = (h * multiplier & mask) ^ k
    if length > whole:
        h ^= int.from_bytes(buf[whole:], "little")
        h = h * multiplier & mask
    h = (h ^ h >> 13) * multiplier & mask
    return h ^ h >> 15
