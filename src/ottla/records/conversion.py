"""Packs a produced batch again with the codec that its topic requires. Pure.

Kafka builds a new batch in this case: offsets start at 0, the first record's time becomes the base timestamp.
Where the producer already wrote it so, and it nearly always did, the records section is taken over as it
stands and only its packing changes; otherwise each record is read and written again.
"""

from __future__ import annotations

from ottla.base.varint import read_varint
from ottla.records._reference import wrap_long
from ottla.records.batch import TRANSACTIONAL_MASK, BatchHeader, Buffer, TimestampType
from ottla.records.builder import assemble_batch, encode_records
from ottla.records.compression import Codec, compress
from ottla.records.record import Record, read_record


def repack(
    header: BatchHeader,
    section: Buffer,
    *,
    sequential: bool,
    max_timestamp: int,
    codec: Codec,
    level: int | None,
    timestamp_type: TimestampType,
) -> bytearray:
    """The batch with its sound, unpacked records `section` packed by `codec`.

    `timestamp_type` and `max_timestamp` are those of the new header.
    """
    base_timestamp = header.base_timestamp
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # Readers of such a batch see one time for all records, and that time is what gets written down.
        base_timestamp = header.max_timestamp
        section = _rewrite(section, header.records_count, keep_time=False)
    else:
        shift = _first_timestamp_delta(section)
        if shift or not sequential:
            section = _rewrite(section, header.records_count, shift)
            base_timestamp = wrap_long(base_timestamp + shift)
    return assemble_batch(
        compress(codec, section, level),
        base_offset=0,
        leader_epoch=header.partition_leader_epoch,
        attributes=codec | timestamp_type << 3 | (header.attributes & TRANSACTIONAL_MASK),
        last_offset_delta=header.records_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=header.records_count,
    )


def _first_timestamp_delta(section: Buffer) -> int:
    _, position = read_varint(section, 0, len(section))
    delta, _ = read_varint(section, position + 1, len(section), 64)
    return delta


def _rewrite(section: Buffer, count: int, shift: int = 0, *, keep_time: bool = True) -> bytearray:
    """The records at consecutive offsets, their times `shift` earlier (the base moves later by as much)."""
    position = 0
    records = []
    for index in range(count):
        record, position = read_record(section, position, len(section))
        delta = wrap_long(record.timestamp_delta - shift) if keep_time else 0
        records.append(Record(index, delta, record.key, record.value, record.headers))
    return encode_records(records)
