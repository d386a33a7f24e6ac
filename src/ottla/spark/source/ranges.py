"""The offsets of a batch and their division into ranges for tasks. Pure arithmetic on offsets.

Invariants: the ranges of a plan do not overlap and cover exactly [start, end) of each partition; a limit never moves
an end before its start, and gives each partition with new records at least one offset, so that no partition starves
beside a busy one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base.ids import TopicPartition
from ottla.spark.source.offsets import Offsets


@dataclass(frozen=True)
class OffsetRange:
    """The range of one task: offsets from `start` (inclusive) to `end` (exclusive)."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> Offsets:
    """Ends with about `limit` offsets in total, in proportion to the new offsets of each partition."""
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
    """The number of offsets between start and end, over all partitions."""
    return sum(max(0, offset - start.get(partition, 0)) for partition, offset in end.items())


def split_ranges(
    ranges: Iterable[OffsetRange], *, partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Split ranges so that none has more than `records_max` offsets and there are about `partitions_min` ranges.

    Ranges that are too small to be split are set aside first; the rest of the number is divided among the large ones.
    Shares are rounded, so there can be a few more or less. The arithmetic is that of Spark's connector.
    """
    parts = [part for part in ranges if part.size > 0]
    if records_max is not None:
        parts = [piece for part in parts for piece in _split(part, math.ceil(part.size / records_max))]
    if partitions_min is not None and parts and len(parts) < partitions_min:
        total = sum(part.size for part in parts)
        large = {part for part in parts if _share(part.size, total, partitions_min) > 1}
        left, pieces = sum(part.size for part in large), partitions_min - len(parts) + len(large)
        parts = [
            piece
            for part in parts
            for piece in _split(part, _share(part.size, left, pieces) if part in large else 1)
        ]
    return parts


def _share(size: int, total: int, pieces: int) -> int:
    return max(1, math.floor(size / total * pieces + 0.5))


def _split(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    """Split into pieces of equal size, as far as possible; none is empty."""
    pieces = min(pieces, whole.size)
    marks = [whole.start + whole.size * number // pieces for number in range(pieces + 1)]
    return [OffsetRange(whole.partition, marks[number], marks[number + 1]) for number in range(pieces)]
