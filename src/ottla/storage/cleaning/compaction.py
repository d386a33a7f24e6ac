"""What the log cleaner decides before it touches a byte: which log, which part, which segments together.

A compacted log has a clean head (every key once, as far as it was known then), a dirty part, and a tail that
must not be touched: the active segment, everything from the last stable offset on (hence from the high
watermark on), and segments with records younger than `min.compaction.lag.ms`. The border between clean and
dirty is what `cleaner-offset-checkpoint` remembers.

The log with the greatest share of dirty bytes is cleaned first, if that share is above its
`min.cleanable.dirty.ratio` or if it holds a record that has waited longer than `max.compaction.lag.ms`.

Pure functions over facts; `cleaner` does the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from ottla.storage.index.sparse_index import INT32_MAX

Candidate = TypeVar("Candidate")


class SegmentFacts(NamedTuple):
    """The properties of a segment that the cleaner needs."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int  # of its records; of the file where no record has one
    first_timestamp: int = -1  # of its first batch; -1 if unknown
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


class LogFacts(NamedTuple):
    """The properties of a log that the cleaner needs; the last segment is the active one."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    segments: Sequence[SegmentFacts]
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float


class Dirt(NamedTuple):
    """How dirty a log is, and between which offsets it can be cleaned."""

    first_dirty_offset: int
    first_uncleanable_offset: int  # the base offset of a segment
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool
    min_ratio: float

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def worth_cleaning(self) -> bool:
        return self.cleanable_bytes > 0 and (self.overdue or self.ratio > self.min_ratio)


def measure_dirt(log: LogFacts, checkpoint: int | None, now_ms: int) -> Dirt:
    """The start and end of the dirty part. `checkpoint` is the first dirty offset of the last cleaning."""
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        # The log was truncated or deleted since: no part is known to be clean.
        first_dirty = log.log_start_offset
    active = len(log.segments) - 1
    first_dirty_segment = _segment_of(log.segments, first_dirty)
    dirty_closed = log.segments[first_dirty_segment:active]

    uncleanable = min(log.last_stable_offset, log.segments[active].base_offset)
    if log.min_compaction_lag_ms > 0:
        youngest = now_ms - log.min_compaction_lag_ms
        too_young = (s.base_offset for s in dirty_closed if s.largest_timestamp > youngest)
        uncleanable = min(uncleanable, next(too_young, uncleanable))
    uncleanable = max(uncleanable, first_dirty)

    # Only whole segments are cleaned: continue from the start of the one that contains the border.
    end = min(_segment_of(log.segments, uncleanable), active)
    start = min(first_dirty_segment, end)
    oldest = min((s.first_timestamp for s in dirty_closed if s.first_timestamp > 0), default=now_ms)
    return Dirt(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=log.segments[end].base_offset,
        clean_bytes=sum(s.size_bytes for s in log.segments if s.base_offset < first_dirty),
        cleanable_bytes=sum(s.size_bytes for s in log.segments[start:end]),
        overdue=oldest < now_ms - max(log.max_compaction_lag_ms, 0),
        min_ratio=log.min_cleanable_dirty_ratio,
    )


def filthiest(candidates: Iterable[tuple[Candidate, Dirt]]) -> tuple[Candidate, Dirt] | None:
    """The dirtiest of the logs that are worth cleaning."""
    worth = [candidate for candidate in candidates if candidate[1].worth_cleaning]
    return max(worth, key=lambda candidate: candidate[1].ratio, default=None)


def group_segments(
    segments: Sequence[SegmentFacts], segment_bytes: int, index_bytes: int, end_offset: int
) -> list[range]:
    """Runs of neighbouring segments that fit into one new segment, as ranges of their numbers.

    Cleaning makes segments small; grouping neighbours limits their number.
    `end_offset` bounds the offsets of the last segment.
    """
    groups = []
    start = 0
    while start < len(segments):
        log_size, offset_index, time_index = _sizes(segments[start])
        end = start + 1
        while end < len(segments):
            size, offsets, times = _sizes(segments[end])
            next_base = segments[end + 1].base_offset if end + 1 < len(segments) else end_offset
            fits = (
                log_size + size <= segment_bytes
                and offset_index + offsets <= index_bytes
                and time_index + times <= index_bytes
                and (size == 0 or next_base - 1 - segments[start].base_offset <= INT32_MAX)
            )
            if not fits:
                break
            log_size, offset_index, time_index = log_size + size, offset_index + offsets, time_index + times
            end += 1
        groups.append(range(start, end))
        start = end
    return groups


def _sizes(segment: SegmentFacts) -> tuple[int, int, int]:
    return segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes


def _segment_of(segments: Sequence[SegmentFacts], offset: int) -> int:
    """The number of the segment that contains `offset`; the first one for lower offsets."""
    number = len(segments) - 1
    while number > 0 and segments[number].base_offset > offset:
        number -= 1
    return number
