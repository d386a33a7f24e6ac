"""Which of a log's oldest segments may go: by age, by size, or because they lie below the log start offset.

Pure decisions; the log carries them out. The timestamp of a segment, which may have to be read from the disk,
is asked for only as far as segments go by age. The rules, in the order in which they are applied:

- below the log start offset: a segment goes when the next one starts at or below it (whatever the cleanup
  policy);
- size (policy `delete`): oldest segments go as long as what stays is at least `retention.bytes`;
- age (policy `delete`): a segment goes when its latest record is older than `retention.ms`. That holds for
  the active segment too, which the log then rolls first: records vanish in time even from a topic nobody
  writes to any more.

Invariants: only a prefix of the log goes, never anything at or above the high watermark, and never an empty
active segment (there would be nothing to win and a new file each time).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

FOREVER = -1  # retention.ms and retention.bytes: no limit


class RetainedSegment(Protocol):
    """What retention wants to know about a segment."""

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
    """How many segments, counted from the oldest, may go; the last of `segments` is the active one."""

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
    """Hands out what a log has beyond its allowed size, segment by segment."""

    def __init__(self, segments: Sequence[RetainedSegment], start: int, retention_bytes: int) -> None:
        self._segments = segments
        self._excess = sum(segment.size for segment in segments[start:]) - retention_bytes

    def takes(self, number: int) -> bool:
        size = self._segments[number].size
        if self._excess < size:
            return False
        self._excess -= size
        return True
