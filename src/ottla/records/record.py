"""Single records inside a batch, for tools, coordinators, compaction and tests.

A record is: length (varint), attributes i8 (unused), timestamp delta (varlong), offset delta (varint), key
and value (varint length, -1 for null, then the bytes), number of headers (varint), and for each header a key
and a value (which may be null). Varints are zig-zag: 32 bits in at most 5 bytes, 64 bits in at most 10.

Not used on the produce and fetch paths, which must not create a Python object per record.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ottla.base.varint import MalformedVarint, append_varint, read_varint
from ottla.records.batch import RECORDS_OFFSET, BatchHeader, Buffer, CorruptBatch, TimestampType, read_header
from ottla.records.compression import Codec, DecompressedTooLarge, DecompressionFailed, decompress

DECOMPRESSED_BYTES_MAX = 104_857_600
"""No batch unpacks to more than a request could carry unpacked (default of `socket.request.max.bytes`)."""


class Header(NamedTuple):
    """A record's header."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record; offset and timestamp are relative to its batch."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


class MalformedRecord(ValueError):
    """Bytes that do not follow the record format."""


def _read_bytes(buf: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(buf, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise MalformedRecord(f"{size} bytes announced, {end - position} left")
    return bytes(buf[position : position + size]), position + size


def read_record(buf: Buffer, position: int, end: int) -> tuple[Record, int]:
    """The record that starts at `position` and where it ends; raises MalformedRecord."""
    try:
        return _read_record(buf, position, end)
    except MalformedVarint as error:
        raise MalformedRecord(str(error)) from None


def _read_record(buf: Buffer, position: int, end: int) -> tuple[Record, int]:
    size, position = read_varint(buf, position, end)
    if size <= 0 or size > end - position:
        raise MalformedRecord(f"a record of {size} bytes announced, {end - position} left")
    end = position + size
    attributes = buf[position]
    timestamp_delta, position = read_varint(buf, position + 1, end, 64)
    offset_delta, position = read_varint(buf, position, end)
    key, position = _read_bytes(buf, position, end)
    value, position = _read_bytes(buf, position, end)
    count, position = read_varint(buf, position, end)
    if not 0 <= count <= end - position:
        raise MalformedRecord(f"{count} headers announced, {end - position} bytes left")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(buf, position, end)
        if name is None:
            raise MalformedRecord("a header has no key")
        content, position = _read_bytes(buf, position, end)
        headers.append(Header(name.decode("utf-8", "replace"), content))
    if position != end:
        raise MalformedRecord(f"{end - position} bytes are left over at the end of a record")
    return Record(offset_delta, timestamp_delta, key, value, tuple(headers), attributes), end


def append_record(out: bytearray, record: Record) -> None:
    """Append one record in its wire form."""
    parts = [
        record.attributes.to_bytes(1, "big"),
        _varint(record.timestamp_delta),
        _varint(record.offset_delta),
        *_sized(record.key),
        *_sized(record.value),
        _varint(len(record.headers)),
    ]
    for name, content in record.headers:
        parts += (*_sized(name.encode()), *_sized(content))
    body = b"".join(parts)
    out += _varint(len(body))
    out += body


@lru_cache(4096)
def _varint(value: int) -> bytes:
    """Coordinators write a record for every commit, with the same few sizes: those are kept."""
    made = bytearray()
    append_varint(made, value)
    return bytes(made)


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    return (_varint(-1), b"") if data is None else (_varint(len(data)), data)


def records_section(batch: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The records of a batch, unpacked; raises CorruptBatch where that is impossible or passes the limit."""
    section = memoryview(batch)[RECORDS_OFFSET : header.size_in_bytes]
    if header.compression == Codec.NONE:
        return section
    try:
        return decompress(header.compression, section, limit)
    except (DecompressionFailed, DecompressedTooLarge) as error:
        raise CorruptBatch(f"batch at offset {header.base_offset}: {error}") from None


def iter_records(batch: Buffer, header: BatchHeader | None = None) -> Iterator[Record]:
    """The records of exactly one batch, unpacked if need be; raises CorruptBatch at what cannot be read."""
    if header is None:
        header = read_header(batch)
    section = records_section(batch, header)
    position = 0
    for _ in range(header.records_count):
        try:
            record, position = read_record(section, position, len(section))
        except MalformedRecord as error:
            raise CorruptBatch(f"batch at offset {header.base_offset}: {error}") from None
        yield record
    if position != len(section):
        raise CorruptBatch(f"batch at offset {header.base_offset}: bytes are left over after its last record")


def record_timestamp(header: BatchHeader, record: Record) -> int:
    """A record's time: its own, or that of the append if the batch is marked so."""
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return header.base_timestamp + record.timestamp_delta
