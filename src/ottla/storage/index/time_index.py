"""The time index of a segment (`<base offset>.timeindex`): from a timestamp to an offset.

    timestamp        int64   greatest timestamp of the segment up to and including the offset
    relative offset  int32   last offset of the batch that has it, minus the segment's base offset

Big endian, 12 bytes an entry, written together with entries of the offset index and once more when the
segment is rolled or closed. Timestamps strictly increase, offsets never decrease; an entry (t, o) means that
every record of the segment later than t is after o. A batch older than what was seen adds no entry.

Crash policy and concurrency: see `sparse_index`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from ottla.base.errors import invariant
from ottla.storage.index.sparse_index import SparseIndex, increases, never_decreases

NO_TIMESTAMP: Final = -1


class TimeIndex(SparseIndex):
    fields = ("q", "i")
    entry_bytes = 12

    @property
    def is_full(self) -> bool:
        """One slot is kept back for the entry written at roll."""
        return self.entry_count >= self._max_entries - 1

    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, or (-1, base offset)."""
        timestamps, relative = self._columns
        if not timestamps:
            return NO_TIMESTAMP, self.base_offset
        return timestamps[-1], self.base_offset + relative[-1]

    def maybe_append(self, timestamp: int, offset: int, *, at_roll: bool = False) -> None:
        """Add (timestamp, offset) if it is later than the last entry; `at_roll` may use the reserved slot."""
        timestamps, relative = self._columns
        last_timestamp, last_offset = self.last_entry
        invariant(at_roll or not self.is_full, f"append to the full index {self.path}")
        invariant(
            not timestamps or (offset >= last_offset and timestamp >= last_timestamp),
            f"({timestamp}, {offset}) does not follow ({last_timestamp}, {last_offset}) in {self.path}",
        )
        if timestamp > last_timestamp:
            entry = self._relative(offset)
            timestamps.append(timestamp)
            relative.append(entry)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The greatest entry (timestamp, offset) at or before `timestamp`, or (-1, base offset)."""
        timestamps, relative = self._columns
        slot = bisect_right(timestamps, timestamp) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        return timestamps[slot], self.base_offset + relative[slot]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._keep(self._count_below(self._columns[1], offset - self.base_offset))

    def _problem(self, columns: Sequence[array[int]]) -> str | None:
        timestamps, relative = columns
        if timestamps and (timestamps[0] < 0 or relative[0] < 0):
            return "an entry lies before the start of its segment"
        if not (increases(timestamps) and never_decreases(relative)):
            return "entries do not increase"
        return None
