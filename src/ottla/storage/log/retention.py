"""The retention rules: how many of a log's oldest segments are deleted, by age, size or log start offset.

Pure decisions; the log carries them out. The timestamp of a segment may have to be read from the disk. It is
looked up only for segments that are checked by age. The rules, in the order in which they are applied:

- below the log start offset: a segment is deleted when the next one starts at or below it, under every cleanup
  policy;
- size (policy `delete`): the oldest segments are deleted while the remaining ones have at least `retention.bytes`;
- age (policy `delete`): a segment is deleted when its latest record is older than `retention.ms`. This includes the
  active segment, which the log rolls first: records also expire in a topic to which no client writes.

Invariants: only a prefix of the log is deleted, nothing at or above the high watermark, and no empty active segment
(a new file would replace it each time).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

FOREVER = -1  # retention.ms and retention.bytes: no limit


class RetainedSegment(Protocol):
    """The properties of a segment that retention checks."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int:
        """Of its records; of the file where no record has one."""
        ...


class RetentionRules(NamedTuple):
    delete: bool  # whether the cleanup policy has `delete`
    retention_ms: int
    retention_bytes: int


def deletable_count(
    segments: Sequence[RetainedSegment],
    rules: RetentionRules,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> int:
    """How many segments, counted from the oldest, are to be deleted; the last of `segments` is the active one."""

    def ends_at(number: int) -> int:
        return segments[number + 1].base_offset if number + 1 < len(segments) else log_end_offset

    def prefix(start: int, breaches: Callable[[int], bool]) -> int:
        """The first segment from `start` on that stays."""
        number = start
        while number < len(segments):
            empty_active = number + 1 == len(segments) and segments[number].size == 0
            if empty_active or ends_at(number) > high_watermark or not breaches(number):
                break
            number += 1
        return number

    def below_start(number: int) -> bool:
        return number + 1 < len(segments) and segments[number + 1].base_offset <= log_start_offset

    def expired(number: int) -> bool:
        return now_ms - segments[number].largest_timestamp > rules.retention_ms

    count = prefix(0, below_start)
    if rules.delete and rules.retention_bytes >= 0:
        count = prefix(count, _SizeBudget(segments, count, rules.retention_bytes).takes)
    if rules.delete and rules.retention_ms >= 0:
        count = prefix(count, expired)
    return count


class _SizeBudget:
    """The bytes of a log above its allowed size, subtracted segment by segment."""

    def __init__(self, segments: Sequence[RetainedSegment], start: int, retention_bytes: int) -> None:
        self._segments = segments
        self._excess = sum(segment.size for segment in segments[start:]) - retention_bytes

    def takes(self, number: int) -> bool:
        size = self._segments[number].size
        if self._excess < size:
            return False
        self._excess -= size
        return True
