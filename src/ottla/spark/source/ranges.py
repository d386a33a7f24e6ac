"""Which offsets a batch reads, and how they are shared out to tasks. Pure arithmetic on offsets.

Invariants: ranges of one plan do not overlap and cover exactly [start, end) of every partition; a limit never
moves an end before its start, and gives every partition that has something new at least one offset, so that no
partition waits for ever behind a busy one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base.ids import TopicPartition
from ottla.spark.source.offsets import Offsets


@dataclass(frozen=True)
class OffsetRange:
    """What one task reads: offsets from `start` to before `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> Offsets:
    """Ends that together are about `limit` offsets away, shared out in proportion to what each partition has."""
    new = {partition: offset - start.get(partition, 0) for partition, offset in end.items()}
    total = sum(count for count in new.values() if count > 0)
    if total <= limit:
        return dict(end)
    limited: Offsets = {}
    for partition, offset in end.items():
        if new[partition] <= 0:
            limited[partition] = offset
            continue
        share = limit * new[partition] / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(offset, start.get(partition, 0) + step)
    return limited


def count_new(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between, over all partitions."""
    return sum(max(0, offset - start.get(partition, 0)) for partition, offset in end.items())


def split_ranges(
    ranges: Iterable[OffsetRange], *, partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Ranges cut so that none is above `records_max` and there are about `partitions_min` of them.

    Those that are too small to be cut are set apart first; the large ones share out what is left of the number. Shares
    are rounded, so that there can be a few more or less: the arithmetic is that of Spark's connector.
    """
    parts = [part for part in ranges if part.size > 0]
    if records_max is not None:
        parts = [cut for part in parts for cut in _cut(part, math.ceil(part.size / records_max))]
    if partitions_min is not None and parts and len(parts) < partitions_min:
        total = sum(part.size for part in parts)
        large = {part for part in parts if _share(part.size, total, partitions_min) > 1}
        left, pieces = sum(part.size for part in large), partitions_min - len(parts) + len(large)
        parts = [
            cut
            for part in parts
            for cut in _cut(part, _share(part.size, left, pieces) if part in large else 1)
        ]
    return parts


def _share(size: int, total: int, pieces: int) -> int:
    return max(1, math.floor(size / total * pieces + 0.5))


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Into so many pieces, as equal as whole offsets allow, none empty."""
    pieces = min(pieces, whole.size)
    marks = [whole.start + whole.size * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(whole.partition, marks[number], marks[number + 1]) for number in range(pieces)]
