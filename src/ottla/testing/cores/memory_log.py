"""A quorum log in memory, with a disk that finishes writes later and loses unfinished ones in a crash.

Operations (append, truncate, install a snapshot) change the log at once and reach the disk in their order. A crash
keeps the operations that were finished, and perhaps some of those that follow: a disk may have written them before
it reported them as finished.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.wire.messages.control import KRaftVersionRecord, VotersRecord
from ottla.wire.schema import Message


class Batch(NamedTuple):
    """Records of one append: `values` is empty for control records."""

    base_offset: int
    end_offset: int
    epoch: int
    values: tuple[bytes, ...]
    controls: tuple[Message, ...] = ()


class BatchBytes(bytes):
    """Stands for the bytes of batches on their way to another replica."""

    batches: tuple[Batch, ...]


def pack(batches: Sequence[Batch]) -> bytes:
    packed = BatchBytes(b"batches" if batches else b"")
    packed.batches = tuple(batches)
    return packed


class SnapshotBytes(bytes):
    """Stands for the bytes of a snapshot on their way to another replica."""

    controls: tuple[Message, ...]


class Image(NamedTuple):
    """What a disk has: batches behind a snapshot, and the control records of the snapshot."""

    snapshot: OffsetAndEpoch | None
    batches: tuple[Batch, ...]
    controls: tuple[Message, ...] = ()


class _Disk:
    """The batches and the snapshot that a disk has, changed by operations one after another."""

    def __init__(self, image: Image) -> None:
        self.snapshot = image.snapshot
        self.controls = image.controls
        self.batches: list[Batch] = []
        self.voter_records: list[tuple[int, Message]] = []
        self.append(image.batches)

    @property
    def end_offset(self) -> int:
        if self.batches:
            return self.batches[-1].end_offset
        return 0 if self.snapshot is None else self.snapshot.offset

    def append(self, batches: Sequence[Batch]) -> None:
        self.batches += batches
        for batch in batches:
            for at, control in enumerate(batch.controls):
                if isinstance(control, KRaftVersionRecord | VotersRecord):
                    self.voter_records.append((batch.base_offset + at, control))

    def truncate(self, offset: int) -> None:
        while self.batches and self.batches[-1].end_offset > offset:
            self.batches.pop()
        self.voter_records = [each for each in self.voter_records if each[0] < self.end_offset]

    def start_at(self, snapshot: OffsetAndEpoch, controls: tuple[Message, ...]) -> None:
        self.snapshot, self.controls = snapshot, controls
        self.batches = [batch for batch in self.batches if batch.base_offset >= snapshot.offset]
        self.voter_records = [each for each in self.voter_records if each[0] >= snapshot.offset]

    def restart_at(self, snapshot: OffsetAndEpoch, controls: tuple[Message, ...]) -> None:
        self.snapshot, self.controls = snapshot, controls
        self.batches.clear()
        self.voter_records.clear()


def _no_controls(_: int) -> Sequence[Message]:
    return ()


EMPTY = Image(None, ())
FETCH_BATCHES_MAX = 8


class MemoryLog:
    """Implements `quorum.raft.raft_log.RaftLog`."""

    def __init__(self, image: Image = EMPTY) -> None:
        self._now = _Disk(image)
        self._written = _Disk(image)
        self._unfinished: list[Callable[[_Disk], None]] = []
        self._ends: list[int] = []
        self._download: tuple[Message, ...] = ()
        self.durable_offset = self.end_offset

    @property
    def batches(self) -> list[Batch]:
        return self._now.batches

    @property
    def snapshot(self) -> OffsetAndEpoch | None:
        return self._now.snapshot

    @property
    def start_offset(self) -> int:
        return 0 if self._now.snapshot is None else self._now.snapshot.offset

    @property
    def end_offset(self) -> int:
        return self._now.end_offset

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
        self._unfinished.pop(0)(self._written)
        self._ends.pop(0)
        self.durable_offset = min(self._written.end_offset, self.end_offset, *self._ends)

    def crash(self, kept: int) -> Image:
        """The disk after a crash in which `kept` of the unfinished operations were written."""
        for operation in self._unfinished[:kept]:
            operation(self._written)
        return Image(self._written.snapshot, tuple(self._written.batches), self._written.controls)

    def _do(self, operation: Callable[[_Disk], None]) -> int:
        operation(self._now)
        self._unfinished.append(operation)
        self._ends.append(self.end_offset)
        self.durable_offset = min(self.durable_offset, self.end_offset)
        return self.end_offset

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        at = bisect_right(self.batches, epoch, key=lambda batch: batch.epoch)
        if at:
            found = self.batches[at - 1]
            return OffsetAndEpoch(found.end_offset, found.epoch)
        if self.snapshot is not None and self.snapshot.epoch <= epoch:
            return self.snapshot
        return OffsetAndEpoch(self.start_offset, 0)

    def append_controls(self, epoch: int, controls: Sequence[Message]) -> int:
        return self._append(epoch, len(controls), (), tuple(controls))

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        return self._append(epoch, len(values), tuple(values))

    def _append(
        self, epoch: int, count: int, values: tuple[bytes, ...], controls: tuple[Message, ...] = ()
    ) -> int:
        batch = Batch(self.end_offset, self.end_offset + count, epoch, values, controls)
        return self._do(lambda disk: disk.append([batch]))

    def append_fetched(self, records: bytes) -> int:
        if not isinstance(records, BatchBytes) or not records.batches:
            return self.end_offset
        batches = records.batches
        if batches[0].base_offset != self.end_offset:
            raise RemoteProtocolError("the batches do not continue the log")
        return self._do(lambda disk: disk.append(batches))

    def voter_records(self) -> Sequence[tuple[int, Message]]:
        return self._now.voter_records

    def snapshot_controls(self) -> Sequence[Message]:
        return self._now.controls

    def read(self, offset: int) -> bytes:
        at = bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
        return pack(self.batches[at : at + FETCH_BATCHES_MAX])

    def truncate(self, offset: int) -> None:
        self._do(lambda disk: disk.truncate(offset))

    def take_snapshot(self, offset: int, controls: Callable[[int], Sequence[Message]] = _no_controls) -> None:
        """Replace the batches below a committed offset by a snapshot, with the control records at its last offset."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
        if at:
            last = self.batches[at - 1]
            snapshot = OffsetAndEpoch(last.end_offset, last.epoch)
            kept = tuple(controls(snapshot.offset - 1))
            self._do(lambda disk: disk.start_at(snapshot, kept))

    def oldest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshot

    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshot

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int) -> tuple[int, bytes] | None:
        if snapshot != self.snapshot:
            return None
        data = SnapshotBytes(b"x")
        data.controls = self._now.controls
        return 2, data

    def write_snapshot_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Nothing is kept of a snapshot but its id and its control records."""
        self._download = data.controls if isinstance(data, SnapshotBytes) else ()

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        controls = self._download
        self._do(lambda disk: disk.restart_at(snapshot, controls))
