"""Builds record batches, for internal records of brokers, tools and tests. Pure.

The batches of producers are stored as they are, except where a topic's settings require another codec
(`records.conversion`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.records.batch import (
    CONTROL_MASK,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    Buffer,
    TimestampType,
    compute_crc,
)
from ottla.records.compression import Codec, compress
from ottla.records.record import Header, Record, append_record


class NewRecord(NamedTuple):
    """A record to be put into a batch, with its absolute time."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int = NO_TIMESTAMP


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch of these records at consecutive offsets, CRC included.

    The first record's time becomes the base timestamp. With LOG_APPEND_TIME the max timestamp is
    `log_append_time`, which readers then take for every record.
    """
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time
    else:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    section = encode_records(
        Record(delta, record.timestamp - base_timestamp, record.key, record.value, record.headers)
        for delta, record in enumerate(records)
    )
    attributes = (
        codec
        | timestamp_type << 3
        | (TRANSACTIONAL_MASK if transactional else 0)
        | (CONTROL_MASK if control else 0)
    )
    batch = assemble_batch(
        compress(codec, section, level),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    return bytes(batch)


def encode_records(records: Iterable[Record]) -> bytearray:
    """The records section of a batch, not compressed."""
    section = bytearray()
    for record in records:
        append_record(section, record)
    return section


def assemble_batch(
    section: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytearray:
    """Header, right CRC and an already packed records section; the fields are taken as they are given."""
    batch = bytearray(HEADER_SIZE + len(section))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )
    batch[HEADER_SIZE:] = section
    batch[CRC_OFFSET : CRC_OFFSET + 4] = compute_crc(batch).to_bytes(4, "big")
    return batch
