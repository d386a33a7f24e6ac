"""The scan of copied batches for a raw append, in plain Python: the specification of the compiled `_raw`.

A scan takes consecutive whole batches that fit behind the end of the active segment: of the log's latest leader epoch,
with offsets that increase, a correct CRC, and within the `RawLimits` of the segment. It ends at the first other batch,
which is examined singly (`raw_append.check_batch`). Nothing is refused here and no record is read.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.batch import HEADER_SIZE, MAGIC, crc_ok, read_header
from ottla.storage.log.bulk_append import IndexEntry

Scanned = tuple[int, int, int, int, list[IndexEntry], int, list[int]]
"""position after the last batch, next offset, greatest timestamp, last offset of its batch, index entries, bytes since
the last entry, positions of batches with a producer id"""


class RawLimits(NamedTuple):
    """The end of a log, and the limits of the active segment for batches that are appended to it."""

    next_offset: int
    last_offset_max: int
    bytes_max: int
    leader_epoch: int
    timestamp_max: int
    bytes_since_entry: int
    """Bytes since the last entry of the sparse indexes."""
    index_interval_bytes: int


def scan_raw(view: memoryview, position: int, limits: RawLimits) -> Scanned | None:
    """Scan the batches from `position` on; None if the first one does not fit."""
    next_offset, last_offset_max, bytes_left, leader_epoch, latest, since_entry, interval = limits
    start, end = position, len(view)
    entries: list[IndexEntry] = []
    producers: list[int] = []
    max_timestamp, max_timestamp_offset = -1, -1
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        size = header.size_in_bytes
        if size < HEADER_SIZE or size > end - position or size > bytes_left or header.magic != MAGIC:
            break
        if header.partition_leader_epoch != leader_epoch or header.max_timestamp > latest:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            break
        last_offset = header.base_offset + header.last_offset_delta
        if last_offset > last_offset_max or not crc_ok(view[position : position + size]):
            break
        next_offset = last_offset + 1
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = header.max_timestamp, last_offset
        if since_entry > interval:
            entries.append((last_offset, position - start, max_timestamp, max_timestamp_offset))
            since_entry = 0
        since_entry += size
        if header.producer_id >= 0:
            producers.append(position)
        bytes_left -= size
        position += size
    if position == start:
        return None
    return position, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry, producers
