"""Tracker of the finished offsets of one assigned partition.

It stores only the *unfinished* offsets, in the order of delivery, and the next offset: all others below that are
finished, including offsets without a record (compacted records, transaction markers). Memory therefore depends on
the number of unfinished records, not on the distance to the oldest one.

Offsets that were finished above the last commit before a restart are given to the constructor. They are skipped
when they are delivered again, and are part of each commit until the committable offset is above them.

Invariants: unfinished offsets ascend and are below `next_offset`; the lowest of them is the committable offset.
Pure. Not thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from ottla.base.errors import invariant
from ottla.client.parallel import offset_metadata
from ottla.client.parallel.offset_metadata import OffsetRange


class OffsetTracker:
    def __init__(
        self, committed_offset: int | None = None, finished_before: Sequence[OffsetRange] = ()
    ) -> None:
        self.next_offset = committed_offset
        """Above every offset delivered so far; None until an offset of the partition is known."""
        # Unlike a dict, it finds its first key in constant time after many deletions.
        self._unfinished: OrderedDict[int, None] = OrderedDict()
        self._finished_before = deque(finished_before)

    def __len__(self) -> int:
        """The number of unfinished records."""
        return len(self._unfinished)

    @property
    def committable_offset(self) -> int | None:
        """The lowest unfinished offset: all records below it are done."""
        if self._unfinished:
            return next(iter(self._unfinished))
        return self.next_offset

    def is_rewind(self, offset: int) -> bool:
        """Whether the partition is read again from a lower offset."""
        return self.next_offset is not None and offset < self.next_offset

    def take(self, offset: int) -> bool:
        """Add a delivered record; False if it was finished before the restart."""
        invariant(not self.is_rewind(offset), "offsets of a partition are delivered in ascending order")
        self.next_offset = offset + 1
        earlier = self._finished_before
        while earlier and earlier[0][1] <= offset:
            earlier.popleft()
        if earlier and earlier[0][0] <= offset:
            return False
        self._unfinished[offset] = None
        return True

    def finish(self, offset: int) -> None:
        del self._unfinished[offset]

    def advance(self, next_offset: int) -> bool:
        """Record that no further offset below this one will be delivered; return whether this changes anything."""
        if self.next_offset is not None and next_offset <= self.next_offset:
            return False
        self.next_offset = next_offset
        return True

    def finished_ranges(self) -> list[OffsetRange]:
        """The finished offsets above the committable one."""
        ranges: list[OffsetRange] = []
        if self.next_offset is None:
            return ranges
        at = self.committable_offset or 0
        for offset in self._unfinished:
            if offset > at:
                ranges.append((at, offset))
            at = offset + 1
        if at < self.next_offset:
            ranges.append((at, self.next_offset))
        for start, end in self._finished_before:
            if end > self.next_offset:
                _append(ranges, (max(start, self.next_offset), end))
        return ranges

    def encode(self, bytes_max: int) -> tuple[str, bool]:
        """The metadata for a commit of `committable_offset`, and whether it is complete."""
        return offset_metadata.encode(self.committable_offset or 0, self.finished_ranges(), bytes_max)

    def exceeds_metadata(self, bytes_max: int) -> bool:
        """Whether the finished offsets above the committable one do not fit into the metadata."""
        if not self._unfinished or self.next_offset is None:
            return False
        last = max(self.next_offset, self._finished_before[-1][1] if self._finished_before else 0)
        span = last - next(iter(self._unfinished))
        if offset_metadata.certainly_fits(
            len(self._unfinished) + len(self._finished_before), span, bytes_max
        ):
            return False
        return not self.encode(bytes_max)[1]


def _append(ranges: list[OffsetRange], added: OffsetRange) -> None:
    if ranges and ranges[-1][1] == added[0]:
        ranges[-1] = (ranges[-1][0], added[1])
    else:
        ranges.append(added)
