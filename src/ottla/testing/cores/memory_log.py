"""A quorum log in memory, with a disk that finishes writes later and loses unfinished ones in a crash.

Operations (append, truncate, install a snapshot) change the log at once and reach the disk in their order. A crash
keeps the operations that were finished, and perhaps some of those that follow: a disk may have written them without
having said so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.wire.schema import Message


class Batch(NamedTuple):
    """Records of one append: `values` is empty for control records."""

    base_offset: int
    end_offset: int
    epoch: int
    values: tuple[bytes, ...]


class BatchBytes(bytes):
    """Stands for the bytes of batches on their way to another replica."""

    batches: tuple[Batch, ...]


def pack(batches: Sequence[Batch]) -> bytes:
    packed = BatchBytes(b"batches" if batches else b"")
    packed.batches = tuple(batches)
    return packed


class Image(NamedTuple):
    """What a disk has: batches behind a snapshot."""

    snapshot: OffsetAndEpoch | None
    batches: tuple[Batch, ...]

    @property
    def start_offset(self) -> int:
        return 0 if self.snapshot is None else self.snapshot.offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset


EMPTY = Image(None, ())
FETCH_BATCHES_MAX = 8


class MemoryLog:
    """Implements `quorum.raft.raft_log.RaftLog`."""

    def __init__(self, image: Image = EMPTY) -> None:
        self.batches = list(image.batches)
        self.snapshot = image.snapshot
        self.start_offset = image.start_offset
        self.end_offset = image.end_offset
        self.durable_offset = image.end_offset
        self._disk = image
        self._unfinished: list[Image] = []
        self._parts = 0

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1].epoch
        return 0 if self.snapshot is None else self.snapshot.epoch

    @property
    def has_unfinished_writes(self) -> bool:
        return bool(self._unfinished)

    def finish_write(self) -> None:
        """The disk has finished the oldest operation."""
        self._disk = self._unfinished.pop(0)
        later = min((image.end_offset for image in self._unfinished), default=self.end_offset)
        self.durable_offset = min(self._disk.end_offset, later, self.end_offset)

    def crash(self, kept: int) -> Image:
        """The disk after a crash in which `kept` unfinished operations were written all the same."""
        return ([self._disk, *self._unfinished])[min(kept, len(self._unfinished))]

    def _changed(self) -> None:
        self.end_offset = self.batches[-1].end_offset if self.batches else self.start_offset
        self.durable_offset = min(self.durable_offset, self.end_offset)
        self._unfinished.append(Image(self.snapshot, tuple(self.batches)))

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        at = bisect_right(self.batches, epoch, key=lambda batch: batch.epoch)
        if at:
            found = self.batches[at - 1]
            return OffsetAndEpoch(found.end_offset, found.epoch)
        if self.snapshot is not None and self.snapshot.epoch <= epoch:
            return self.snapshot
        return OffsetAndEpoch(self.start_offset, 0)

    def append_controls(self, epoch: int, controls: Sequence[Message], now_ms: int) -> int:
        return self._append(epoch, len(controls), ())

    def append(self, epoch: int, values: Sequence[bytes], now_ms: int) -> int:
        return self._append(epoch, len(values), tuple(values))

    def _append(self, epoch: int, count: int, values: tuple[bytes, ...]) -> int:
        self.batches.append(Batch(self.end_offset, self.end_offset + count, epoch, values))
        self._changed()
        return self.end_offset

    def append_fetched(self, records: bytes) -> int:
        if isinstance(records, BatchBytes) and records.batches:
            if records.batches[0].base_offset != self.end_offset:
                raise RemoteProtocolError("the batches do not continue the log")
            self.batches += records.batches
            self._changed()
        return self.end_offset

    def read(self, offset: int) -> bytes:
        at = bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
        return pack(self.batches[at : at + FETCH_BATCHES_MAX])

    def truncate(self, offset: int) -> None:
        while self.batches and self.batches[-1].end_offset > offset:
            self.batches.pop()
        self._changed()

    def take_snapshot(self, offset: int) -> None:
        """Replace the batches below a committed offset by a snapshot."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
        if at:
            last = self.batches[at - 1]
            self.snapshot = OffsetAndEpoch(last.end_offset, last.epoch)
            self.start_offset = last.end_offset
            del self.batches[:at]
            self._changed()

    def oldest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshot

    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshot

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int) -> tuple[int, bytes] | None:
        return (2, b"x") if snapshot == self.snapshot else None

    def write_snapshot_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        self._parts = position + len(data)

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        self.snapshot = snapshot
        self.start_offset = snapshot.offset
        self.batches.clear()
        self._changed()
