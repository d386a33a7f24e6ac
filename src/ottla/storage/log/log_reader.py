"""Finding things in a log: batches by offset, records by timestamp.

Only bytes that are written are looked at. A search by offset costs one lookup in memory and one small read, or nothing
if an earlier read ended at that offset: followers and consumers at the end of a log continue where they stopped. A
search by timestamp may unpack a batch, since only its records know their times.

Concurrency: the log's task only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ottla.records.batch import BatchHeader, TimestampType, read_header
from ottla.records.record import iter_records
from ottla.storage.log.log_slice import LogSlice
from ottla.storage.log.segment import Segment
from ottla.storage.log.segments import Segments
from ottla.storage.recovery.batch_scan import BatchPosition, walk


class FoundRecord(msgspec.Struct, frozen=True):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


_UNKNOWN: Final[tuple[Segment | None, int]] = (None, 0)
_KNOWN_MAX: Final = 4
"""Enough for followers, and consumers of either isolation level, at the end of a log."""


class LogReader:
    def __init__(self, segments: Segments, log_dir: str) -> None:
        self._segments = segments
        self._log_dir = log_dir
        self._known: dict[int, tuple[Segment, int]] = {}
        """Of the last limits: the segment, and the position of the first batch at or above the limit."""

    def forget(self) -> None:
        """The log was cut: positions found earlier do not hold any more."""
        self._known.clear()

    def read(
        self, offset: int, max_bytes: int, *, limit: int, readable_offset: int, min_one: bool
    ) -> LogSlice:
        """Batches of one segment from the one that holds `offset` on, below `limit`, which is at most what is
        written.

        With `min_one` the first batch is whole whatever its size; without, the slice is empty if it is too
        long.
        """
        segments = self._segments
        last = len(segments) if offset < limit else 0
        for slot in range(segments.slot_of(offset), last):
            segment = segments[slot]
            if segment.base_offset >= limit:
                break
            end = self._end_position(slot, limit, readable_offset)
            known, position = self._known.get(offset, _UNKNOWN)
            if known is segment and 0 < end - position <= max_bytes:
                return LogSlice(segment.file, position, end - position, self._log_dir)
            found = segment.find(offset, end)
            if found is not None:
                size = min(end - found.position, max_bytes)
                if size < found.size:
                    size = found.size if min_one else 0
                return LogSlice(segment.file, found.position, size, self._log_dir)
        # There is nothing below the limit, or everything from `offset` on was removed by compaction.
        active = segments.active
        return LogSlice(active.file, active.written_size, 0, self._log_dir)

    def _end_position(self, slot: int, limit: int, readable_offset: int) -> int:
        """Where in a segment the batches below `limit` end."""
        segment = self._segments[slot]
        bases = self._segments.bases
        if slot + 1 < len(bases) and (limit >= readable_offset or bases[slot + 1] <= limit):
            return segment.written_size
        known, position = self._known.get(limit, _UNKNOWN)
        if known is not segment:
            batch_at = None if limit >= readable_offset else segment.find(limit, segment.written_size)
            position = segment.written_size if batch_at is None else batch_at.position
            if len(self._known) == _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[limit] = (segment, position)
        return position

    def first_at_or_after(self, timestamp: int, log_start_offset: int) -> FoundRecord | None:
        """The first record whose timestamp is at or after the given one."""
        for segment in self._segments:
            if segment.largest_timestamp >= timestamp:
                return _search(segment, timestamp, log_start_offset)
        return None

    def latest(self) -> FoundRecord | None:
        """The first of the records that have the greatest timestamp; None in an empty log."""
        newest = max(self._segments, key=lambda segment: segment.max_timestamp)
        # Records without a time have the "greatest" one if nothing else is there.
        timeless = newest.max_timestamp < 0
        offset = newest.base_offset if timeless else newest.max_timestamp_offset
        batch_at = newest.find(offset, newest.written_size)
        if batch_at is None:
            # The record is staged but not written yet: look among those that are.
            written = list(walk(newest.file, 0, newest.written_size))
            if not written:
                return None
            position, header = max(written, key=lambda found: found[1].max_timestamp)
            batch_at = BatchPosition(
                position, header.size_in_bytes, header.base_offset, header.last_offset, header.max_timestamp
            )
        return _first_in_batch(newest, batch_at, batch_at.max_timestamp, 0)


def _search(segment: Segment, timestamp: int, from_offset: int) -> FoundRecord | None:
    batch_at = segment.find_timestamp(timestamp, from_offset)
    while batch_at is not None:
        found = _first_in_batch(segment, batch_at, timestamp, from_offset)
        if found is not None:
            return found
        # The batch contains such a record, but below the log start.
        batch_at = segment.find_timestamp(timestamp, batch_at.last_offset + 1)
    return None


def _first_in_batch(
    segment: Segment, batch_at: BatchPosition, timestamp: int, from_offset: int
) -> FoundRecord | None:
    """The first record in a batch at or after both a timestamp and an offset."""
    batch = segment.file.pread(batch_at.size, batch_at.position)
    header = read_header(batch)
    for offset, time in _times(batch, header):
        if time >= timestamp and offset >= from_offset:
            return FoundRecord(offset, time, header.partition_leader_epoch)
    return None


def _times(batch: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        for offset in range(header.base_offset, header.last_offset + 1):
            yield offset, header.max_timestamp
        return
    for record in iter_records(batch, header):
        yield header.base_offset + record.offset_delta, header.base_timestamp + record.timestamp_delta
