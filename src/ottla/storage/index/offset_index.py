"""The offset index of a segment (`<base offset>.index`): from an offset to a position in the log file.

    relative offset  int32   last offset of a batch, minus the segment's base offset
    position         int32   where that batch starts in the log file

Big endian, 8 bytes an entry, one entry about every `index.interval.bytes` of log; both fields strictly
increase. An offset is found by taking the greatest entry at or below it and scanning the log from its
position. Position 0 is never indexed, which distinguishes entries from a preallocated zero tail.

Crash policy and concurrency: see `sparse_index`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from ottla.base.errors import invariant
from ottla.storage.index.sparse_index import INT32_MAX, SparseIndex, increases


class OffsetIndex(SparseIndex):
    fields = ("i", "i")
    entry_bytes = 8

    @property
    def last_offset(self) -> int:
        """The greatest indexed offset, or the base offset of an empty index."""
        relative = self._columns[0]
        return self.base_offset + (relative[-1] if relative else 0)

    def append(self, offset: int, position: int) -> None:
        """Index the batch at `position` whose last offset is `offset`. A full index must have been rolled."""
        relative, positions = self._columns
        entry = self._relative(offset)
        invariant(not self.is_full, f"append to the full index {self.path}")
        invariant(0 < position <= INT32_MAX, f"position {position} cannot be indexed in {self.path}")
        invariant(
            not relative or (entry > relative[-1] and position > positions[-1]),
            f"offset {offset} at {position} does not follow {self.last_offset} in {self.path}",
        )
        relative.append(entry)
        positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The greatest entry (offset, position) at or below `offset`, or the start of the segment."""
        relative, positions = self._columns
        slot = bisect_right(relative, offset - self.base_offset) - 1
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + relative[slot], positions[slot]

    def first_at_or_after(self, position: int) -> tuple[int, int] | None:
        """The least entry at or after a position of the log: an upper bound for a read of limited size."""
        relative, positions = self._columns
        slot = self._count_below(positions, position)
        if slot == len(positions):
            return None
        return self.base_offset + relative[slot], positions[slot]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(self._count_below(self._columns[0], offset - self.base_offset))

    def _problem(self, columns: Sequence[array[int]]) -> str | None:
        relative, positions = columns
        if relative and (relative[0] < 0 or positions[0] <= 0):
            return "an entry lies before the start of its segment"
        if not (increases(relative) and increases(positions)):
            return "entries do not increase"
        return None
