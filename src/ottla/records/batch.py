"""The record batch, format 2: where its fields lie, and the few changes a leader makes to one.

Layout (big-endian), 61 bytes of header before the records:

    0  base offset        i64   |  27  base timestamp   i64
    8  batch length       i32   |  35  max timestamp    i64
    12 leader epoch       i32   |  43  producer id      i64
    16 magic (2)          i8    |  51  producer epoch   i16
    17 CRC-32C            u32   |  53  base sequence    i32
    21 attributes         i16   |  57  records count    i32
    23 last offset delta  i32   |  61  records, or their compressed form

The batch length counts what follows it (from byte 12). The CRC covers everything from the attributes on, so
base offset and leader epoch can be stamped without touching it. Attributes: bits 0-2 codec, 3 timestamp type
(1 = log append time), 4 transactional, 5 control, 6 the base timestamp is a delete horizon.

Nothing here reads single records, depends on the offsets of a log, or does I/O. Functions that change a batch take
a writable buffer owned by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.base.crc import crc32c
from ottla.base.errors import ApiError, ErrorCode

Buffer = bytes | bytearray | memoryview

MAGIC = 2
LENGTH_OFFSET = 8
LEADER_EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21
MAX_TIMESTAMP_OFFSET = 35
RECORDS_OFFSET = 61
HEADER_SIZE = RECORDS_OFFSET
LOG_OVERHEAD = 12
"""Base offset and length: the bytes that the batch length does not count."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40
KNOWN_ATTRIBUTES = 0x7F

NO_TIMESTAMP = -1
TIMESTAMP_MAX = 0x7FFF_FFFF_FFFF_FFFF
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
SEQUENCE_MAX = 0x7FFFFFFF

HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class TimestampType(IntEnum):
    """Which clock the timestamps of a batch are from: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CorruptBatch(ApiError):
    """These bytes are no record batch of format 2."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class BatchHeader(NamedTuple):
    """The header's fields in wire order; a tuple, because one is made for every batch that passes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_in_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """The codec's number; 5 to 7 are not assigned."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_MASK) >> 3)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a compacted batch's tombstones may be removed; stored in the field of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


header_of: Callable[[tuple[int, ...]], BatchHeader] = partial(tuple.__new__, BatchHeader)
"""A header of fields that are known to be thirteen: half the price of `_make`, which counts them."""


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers run from 0 to 2^31 - 1 and then start again at 0."""
    return (sequence + increment) & SEQUENCE_MAX


def read_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """The header that starts at `position`; raises CorruptBatch if there is no room for one."""
    try:
        return header_of(HEADER.unpack_from(buf, position))
    except StructError:
        raise CorruptBatch(f"{len(buf) - position} bytes are less than a batch header") from None


def iter_batches(buf: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each complete batch and its position; stops at a partial tail, raises CorruptBatch at an impossible one."""
    end = len(buf)
    while end - position >= HEADER_SIZE:
        header = read_header(buf, position)
        size = header.size_in_bytes
        if size < HEADER_SIZE or header.magic != MAGIC:
            raise CorruptBatch(
                f"impossible batch header at byte {position}: size {size}, magic {header.magic}"
            )
        if end - position < size:
            return
        yield position, header
        position += size


def compute_crc(batch: Buffer) -> int:
    """CRC-32C of exactly one batch."""
    crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
    return crc


def crc_ok(batch: Buffer) -> bool:
    """Whether exactly these bytes carry their right CRC; False also for what is too short to be a batch."""
    if len(batch) < HEADER_SIZE:
        return False
    (stored,) = _CRC.unpack_from(batch, CRC_OFFSET)
    return bool(compute_crc(batch) == stored)


def stamp(buf: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Set the base offset and leader epoch of a batch. Both fields are outside the CRC."""
    _OFFSET.pack_into(buf, 0, base_offset)
    _EPOCH.pack_into(buf, LEADER_EPOCH_OFFSET, leader_epoch)


def set_max_timestamp(
    batch: memoryview | bytearray, header: BatchHeader, kind: TimestampType, max_timestamp: int
) -> BatchHeader:
    """Write timestamp type and max timestamp with a new CRC; attribute bits without a meaning are cleared.

    The batch is exactly one batch and `header` its header; the header as it is afterwards is returned.
    """
    attributes = (header.attributes & KNOWN_ATTRIBUTES & ~TIMESTAMP_TYPE_MASK) | (kind << 3)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_OFFSET, attributes)
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_OFFSET, max_timestamp)
    crc = compute_crc(batch)
    _CRC.pack_into(batch, CRC_OFFSET, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)
