"""The row of segments that makes up a log, oldest first, and the ways in which it changes.

The last segment is active. Segments leave at the old end (retention), at the new end (truncation) or are
replaced (compaction). One that readers may still hold a slice of is renamed to `.deleted` and kept open until
`file.delete.delay.ms` have passed; the rest is removed at once.

Concurrency: the log's task only. Durability of names is said at each operation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from ottla.base.errors import invariant
from ottla.base.files import Disk
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log import log_files
from ottla.storage.log.segment import Segment


class Segments(Sequence[Segment]):
    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        invariant(bool(segments), f"{directory}: a log has at least one segment")
        self._disk = disk
        self._directory = directory
        self._row = segments
        self._bases = [segment.base_offset for segment in segments]
        self._doomed: list[tuple[int, Segment]] = []

    def __len__(self) -> int:
        return len(self._row)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._row[slot]

    @property
    def active(self) -> Segment:
        return self._row[-1]

    @property
    def first(self) -> Segment:
        return self._row[0]

    @property
    def bases(self) -> list[int]:
        return self._bases

    def slot_of(self, offset: int) -> int:
        """Number of the segment in whose range `offset` lies; 0 for offsets before the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        return self._row[self.slot_of(offset) :]

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """Those with records in [start_offset, end_offset)."""
        found: list[AbortedTxn] = []
        for segment in self.from_offset(start_offset):
            aborted, complete = segment.txn_index.collect(start_offset, end_offset)
            found += aborted
            if complete:
                break
        return found

    def add(self, segment: Segment) -> None:
        """A new active segment; its name is not durable yet."""
        invariant(
            not self._bases or segment.base_offset > self._bases[-1], f"{segment.path} does not come last"
        )
        self._row.append(segment)
        self._bases.append(segment.base_offset)

    def remove_last(self) -> Segment:
        """Remove the newest segment with its files, durably."""
        segment = self._row.pop()
        self._bases.pop()
        segment.remove()
        self._disk.sync_dir(self._directory)
        return segment

    def doom_first(self, count: int, remove_at_ms: int) -> list[Segment]:
        """Take the oldest segments out, durably; their files stay until `remove_doomed`.

        Each is gone for good before the next goes, so that a crash leaves no hole.
        """
        gone = self._row[:count]
        invariant(count < len(self._row), f"{self._directory}: the active segment cannot go")
        for segment in gone:
            segment.rename(log_files.DELETED)
            self._doomed.append((remove_at_ms, segment))
        del self._row[:count]
        del self._bases[:count]
        return gone

    def replace(self, old: list[Segment], new: Segment, remove_at_ms: int) -> None:
        """Put `new`, complete and synced under `.cleaned`, in the place of neighbouring sealed segments,
        durably.

        A crash before the first rename is durable leaves the old ones; after it, recovery finishes the
        exchange.
        """
        start = self._row.index(old[0])
        invariant(
            self._row[start : start + len(old)] == old,
            f"{self._directory}: segments to replace are no neighbours",
        )
        invariant(
            new.suffix == log_files.CLEANED and old[-1] is not self.active, f"{new.path} cannot be swapped in"
        )
        new.rename(log_files.SWAP)
        self._disk.sync_dir(self._directory)
        for segment in old:
            segment.rename(log_files.DELETED)
            self._doomed.append((remove_at_ms, segment))
        self._disk.sync_dir(self._directory)
        new.rename("")
        self._disk.sync_dir(self._directory)
        self._row[start : start + len(old)] = [new]
        self._bases[start : start + len(old)] = [new.base_offset]

    def remove_doomed(self, now_ms: int) -> int:
        """Delete files whose time has come; returns how many segments went."""
        due = [segment for at, segment in self._doomed if at <= now_ms]
        if due:
            self._doomed = [(at, segment) for at, segment in self._doomed if at > now_ms]
            for segment in due:
                segment.remove()
        return len(due)

    def move(self, directory: str) -> None:
        """Follow the partition's directory to its new name."""
        self._directory = directory
        for segment in self._all():
            segment.move(directory)

    def close(self) -> None:
        """Give all descriptors back."""
        for segment in self._all():
            segment.close()

    def _all(self) -> list[Segment]:
        return self._row + [segment for _, segment in self._doomed]
