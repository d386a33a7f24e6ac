"""The transaction index of a segment (`<base offset>.txnindex`): the aborted transactions that end in it.

    version             int16   0
    producer id         int64
    first offset        int64   first record of the transaction (may lie in an earlier segment)
    last offset         int64   the abort marker
    last stable offset  int64   that of the log just before the marker took effect

Big endian, 34 bytes an entry, ordered by last offset. A segment without aborted transactions has no file.

Crash policy and concurrency: see `sparse_index`; a torn tail means the index is rebuilt from the log and the
producer snapshot of the segment.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.base.errors import invariant
from ottla.base.files import Disk
from ottla.storage.index.sparse_index import INT32_MAX, SparseIndex, increases

VERSION: Final = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex(SparseIndex):
    fields = ("h", "q", "q", "q", "q")
    entry_bytes = 34
    zero_tail = False

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset, INT32_MAX)

    def append(self, aborted: AbortedTxn) -> None:
        versions, producers, firsts, lasts, stable = self._columns
        invariant(
            not lasts or aborted.last_offset > lasts[-1],
            f"aborted transaction ending at {aborted.last_offset} does not follow in {self.path}",
        )
        versions.append(VERSION)
        producers.append(aborted.producer_id)
        firsts.append(aborted.first_offset)
        lasts.append(aborted.last_offset)
        stable.append(aborted.last_stable_offset)

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions with records in [start_offset, end_offset).

        The flag is True if later segments cannot add any: some transaction here ended when everything before
        `end_offset` was already stable.
        """
        _, _, firsts, lasts, stable = self._columns
        found = []
        for slot in range(self._count_below(lasts, start_offset), len(lasts)):
            if firsts[slot] < end_offset:
                found.append(self._entry(slot))
            if stable[slot] >= end_offset:
                return found, True
        return found, False

    def entries(self) -> Iterable[AbortedTxn]:
        return map(self._entry, range(self.entry_count))

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions with a marker at or above `offset`."""
        self._keep(self._count_below(self._columns[3], offset))

    def flush(self, *, sync: bool = False) -> None:
        """As in other indexes, but an index that was always empty makes no file."""
        if self.needs_write:
            super().flush(sync=sync)

    @property
    def needs_write(self) -> bool:
        return self.has_unwritten_entries or self.has_stale_entries

    def _entry(self, slot: int) -> AbortedTxn:
        _, producers, firsts, lasts, stable = self._columns
        return AbortedTxn(producers[slot], firsts[slot], lasts[slot], stable[slot])

    def _problem(self, columns: Sequence[array[int]]) -> str | None:
        versions, _, firsts, lasts, _ = columns
        if any(versions):
            return f"entry of version {max(versions)}, only {VERSION} is known"
        if lasts and lasts[0] < self.base_offset:
            return "an entry lies before the start of its segment"
        if not increases(lasts) or any(map(int.__gt__, firsts, lasts)):
            return "entries do not increase"
        return None
