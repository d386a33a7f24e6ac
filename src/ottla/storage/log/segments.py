"""The list of segments of a log, oldest first, and the operations that change it.

The last segment is active. Segments are removed at the old end (retention), at the new end (truncation) or
replaced (compaction). One that readers may still hold a slice of is renamed to `.deleted` and kept open until
`file.delete.delay.ms` have passed; others are removed immediately.

Concurrency: the log's task only. The durability of names is documented at each operation.
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
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._deleted: list[tuple[int, Segment]] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...

    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...

    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._segments[slot]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def bases(self) -> list[int]:
        return self._bases

    def slot_of(self, offset: int) -> int:
        """Number of the segment that contains `offset`; 0 for offsets before the first."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> list[Segment]:
        return self._segments[self.slot_of(offset) :]

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
            not self._bases or segment.base_offset > self._bases[-1],
            f"{segment.path} is not the last segment",
        )
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove_last(self) -> Segment:
        """Remove the newest segment with its files, durably."""
        segment = self._segments.pop()
        self._bases.pop()
        segment.remove()
        self._disk.sync_dir(self._directory)
        return segment

    def take_first(self, count: int) -> list[Segment]:
        """Remove the oldest segments from the list; their files are the caller's."""
        invariant(count < len(self._segments), f"{self._directory}: the active segment cannot be removed")
        taken = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        return taken

    def keep_deleted(self, remove_at_ms: int, segments: list[Segment]) -> None:
        """Keep the files of deleted segments until `take_due` returns them."""
        self._deleted += [(remove_at_ms, segment) for segment in segments]

    def replace(self, old: list[Segment], new: Segment, remove_at_ms: int) -> None:
        """Put `new`, complete and synced under `.cleaned`, instead of neighbouring sealed segments,
        durably.

        A crash before the first rename is durable leaves the old ones; after it, recovery finishes the
        exchange.
        """
        start = self._segments.index(old[0])
        invariant(
            self._segments[start : start + len(old)] == old,
            f"{self._directory}: segments to replace are not adjacent",
        )
        invariant(
            new.suffix == log_files.CLEANED and old[-1] is not self.active, f"{new.path} cannot be swapped in"
        )
        new.rename(log_files.SWAP)
        self._disk.sync_dir(self._directory)
        for segment in old:
            segment.rename(log_files.DELETED)
            self._deleted.append((remove_at_ms, segment))
        self._disk.sync_dir(self._directory)
        new.rename("")
        self._disk.sync_dir(self._directory)
        self._segments[start : start + len(old)] = [new]
        self._bases[start : start + len(old)] = [new.base_offset]

    def take_due(self, now_ms: int) -> list[Segment]:
        """The deleted segments whose files are to be removed now, for the caller to do so."""
        if not self._deleted:
            return []
        due = [segment for at, segment in self._deleted if at <= now_ms]
        self._deleted = [(at, segment) for at, segment in self._deleted if at > now_ms]
        return due

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
        return self._segments + [segment for _, segment in self._deleted]
