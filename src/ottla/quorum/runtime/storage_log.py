"""The quorum's log over a storage log: appends are written and synced in the executor, one write at a time.

Batches that are not written yet can be read already, so a leader replicates a batch while its own disk syncs it.
Records of voters are collected as they are appended, because a set of voters is in force before it is written.
A follower has no outstanding write when it truncates or installs a snapshot, because it fetches only when its whole log
is durable. Snapshots lie beside the log (`quorum.snapshots`); one that is being fetched is collected in memory.

Crash policy: as for any log. A write of several batches may be torn anywhere; recovery keeps whole batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, LocalError, RemoteProtocolError, StorageFault, invariant
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.quorum.control_records import control_batch, voter_records
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, decode_snapshot
from ottla.records.batch import BatchHeader, CorruptBatch, iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.storage.log.log import Log
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)
READ_BYTES_MAX: Final = 4 << 20


class StorageRaftLog:
    """Implements `raft_log.RaftLog`. The configuration of `log` must sync every append (`flush.messages=1`)."""

    def __init__(self, disk: Disk, directory: str, log: Log, executor: Executor, clock: Clock) -> None:
        invariant(log.config.flush_messages == 1, "the quorum acknowledges only durable records")
        self.on_durable: Callable[[], None] = _ignore
        self.on_fault: Callable[[BaseException], None] = _ignore_fault
        self.bytes_appended = 0
        self._disk = disk
        self._directory = directory
        self._log = log
        self._executor = executor
        self._clock = clock
        self._store = SnapshotStore(disk, directory)
        self._snapshot_controls: Sequence[Message] = ()
        self._snapshots = [OffsetAndEpoch(one.end_offset, one.epoch) for one in self._usable_snapshots()]
        self._voter_records: list[tuple[int, Message]] = []
        self._scan()
        self._unwritten: deque[tuple[int, bytes]] = deque()  # (end offset, batches)
        self._writing = False
        self._download = bytearray()

    def _usable_snapshots(self) -> list[SnapshotId]:
        """The snapshots up to the newest one that can be read; the log then starts at or before its end."""
        ids = self._store.ids()
        while ids:
            newest = ids[-1]
            try:
                self._snapshot_controls = self._store.read(newest).controls
            except LocalError as error:
                if self._log.log_start_offset >= newest.end_offset > 0:
                    raise
                _log.warning("a metadata snapshot is damaged; an older one is used", reason=str(error))
                ids.pop()
                continue
            if self._log.log_end_offset < newest.end_offset:
                # The snapshot was installed, and the process ended before the log was replaced.
                self._log.perform(self._log.take_restart(newest.end_offset, self._clock.now_ms()))
            return ids
        if self._log.log_start_offset > 0:
            raise LocalError(
                f"the metadata log starts at offset {self._log.log_start_offset} and no snapshot covers the records "
                "before it; restore the .checkpoint files of the directory"
            )
        return []

    def _scan(self) -> None:
        """Find the records of voters in the log."""
        for header, batch in self._log.batches(self._log.log_start_offset, upto=self.end_offset):
            if header.is_control:
                self._voter_records += voter_records(header, batch)

    @property
    def writing(self) -> bool:
        """Whether a write is in flight."""
        return self._writing

    # Offsets

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def durable_offset(self) -> int:
        return self._log.flushed_offset

    @property
    def last_epoch(self) -> int:
        if self._log.latest_epoch >= 0:
            return self._log.latest_epoch
        return self._snapshots[-1].epoch if self._snapshots else 0

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        entries = self._log.epochs.entries()
        for at in range(len(entries) - 1, -1, -1):
            if entries[at].epoch <= epoch:
                end = entries[at + 1].start_offset if at + 1 < len(entries) else self.end_offset
                return OffsetAndEpoch(end, entries[at].epoch)
        for snapshot in reversed(self._snapshots):
            if snapshot.epoch <= epoch and snapshot.offset <= self.start_offset:
                return snapshot
        return OffsetAndEpoch(self.start_offset, 0)

    # Appends

    def append_controls(self, epoch: int, controls: Sequence[Message]) -> int:
        now_ms = self._clock.now_ms()
        return self._append(control_batch(controls, base_offset=self.end_offset, epoch=epoch, now_ms=now_ms))

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        now_ms = self._clock.now_ms()
        records = [NewRecord(None, value, (), now_ms) for value in values]
        return self._append(build_batch(records, base_offset=self.end_offset, leader_epoch=epoch))

    def append_fetched(self, records: bytes) -> int:
        whole = _whole_batches(records)
        if not whole:
            return self.end_offset
        first = next(iter_batches(memoryview(whole)))[1]
        if first.base_offset != self.end_offset:
            raise RemoteProtocolError(f"batches from offset {first.base_offset}, not {self.end_offset}")
        try:
            return self._append(whole)
        except (CorruptBatch, ApiError) as error:
            raise RemoteProtocolError(str(error)) from error

    def _append(self, batches: bytes) -> int:
        try:
            self._log.append_raw(batches, self._clock.now_ms())
        except StorageFault as fault:
            self.on_fault(fault)
            return self.end_offset
        self.bytes_appended += len(batches)
        view = memoryview(batches)
        for position, header in iter_batches(view):
            if header.is_control:
                self._voter_records += voter_records(header, view[position : position + header.size_in_bytes])
        self._unwritten.append((self.end_offset, batches))
        self._write()
        return self.end_offset

    def _write(self) -> None:
        job = None if self._writing else self._log.take_staged()
        if job is None:
            return
        self._writing = True

        def finished(failure: BaseException | None) -> None:
            self._writing = False
            if failure is not None:
                self._log.fail()
                self.on_fault(failure)
                return
            self._log.written(job, self._clock.now_ms())
            while self._unwritten and self._unwritten[0][0] <= self._log.readable_offset:
                self._unwritten.popleft()
            self._write()
            self.on_durable()

        self._executor.submit(job.run, finished)

    def voter_records(self) -> Sequence[tuple[int, Message]]:
        return self._voter_records

    def snapshot_controls(self) -> Sequence[Message]:
        return self._snapshot_controls

    # Reads

    def read(self, offset: int) -> bytes:
        if offset < self._log.readable_offset:
            return self._log.read_bytes(offset, READ_BYTES_MAX, upto=self.end_offset)
        parts = []
        for _, batches in self._unwritten:
            if next(iter_batches(memoryview(batches)))[1].base_offset >= offset:
                parts.append(batches)
        return b"".join(parts)

    def batches(self, offset: int, upto: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The written batches from `offset` on, below `upto`."""
        return self._log.batches(offset, upto=min(upto, self._log.readable_offset))

    def committed(self, high_watermark: int) -> None:
        """Records below this offset are committed; retention may delete them once a snapshot covers them."""
        self._log.high_watermark = min(high_watermark, self.end_offset)

    def truncate(self, offset: int) -> None:
        invariant(not self._writing, "a follower truncates only when its whole log is durable")

        def truncate() -> None:
            job = self._log.take_truncation(offset, self._clock.now_ms())
            if job is not None:
                self._log.perform(job)

        self._faulty(truncate)
        self._voter_records = [each for each in self._voter_records if each[0] < offset]

    # Snapshots

    def oldest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshots[0] if self._snapshots else None

    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshots[-1] if self._snapshots else None

    def read_snapshot(self, snapshot: OffsetAndEpoch, position: int) -> tuple[int, bytes] | None:
        if snapshot not in self._snapshots or position < 0:
            return None
        data = self._disk.read(f"{self._directory}/{SnapshotId(snapshot.offset, snapshot.epoch).file_name}")
        return len(data), data[position : position + READ_BYTES_MAX]

    def write_snapshot_part(self, snapshot: OffsetAndEpoch, position: int, data: bytes) -> None:
        del self._download[position:]
        self._download += data

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        invariant(not self._writing, "a follower installs a snapshot only when its whole log is durable")
        data, self._download = bytes(self._download), bytearray()
        snapshot_id = SnapshotId(snapshot.offset, snapshot.epoch)
        controls = decode_snapshot(data, snapshot_id.file_name).controls

        def install() -> None:
            self._store.write(snapshot_id, data)
            self._log.perform(self._log.take_restart(snapshot.offset, self._clock.now_ms()))

        self._faulty(install)
        self._snapshots = [*(one for one in self._snapshots if one < snapshot), snapshot]
        self._snapshot_controls, self._voter_records = controls, []

    def snapshot_written(self, snapshot: OffsetAndEpoch, controls: Sequence[Message]) -> None:
        """A snapshot of the local state is durable: delete the log and snapshots below the one before it."""
        kept = self._snapshots[-1] if self._snapshots else OffsetAndEpoch(0, 0)
        self._snapshots.append(snapshot)
        self._snapshot_controls = controls
        self._voter_records = [each for each in self._voter_records if each[0] >= snapshot.offset]
        self.bytes_appended = 0

        def delete() -> None:
            self._log.increment_log_start_offset(kept.offset)
            now_ms = self._clock.now_ms()
            job = self._log.take_deletion(now_ms)
            if job is not None:
                self._log.perform(job)
            for segment in self._log.segments.take_due(now_ms):
                segment.remove()
            for one in [one for one in self._snapshots if one.offset < kept.offset]:
                self._store.delete(SnapshotId(one.offset, one.epoch))
                self._snapshots.remove(one)

        self._faulty(delete)

    def roll(self) -> None:
        """Begin a new segment, so that a snapshot makes the earlier ones unnecessary."""
        self._faulty(lambda: self._log.roll(self._clock.now_ms()))

    def _faulty(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (OSError, StorageFault) as fault:
            self._log.fail()
            self.on_fault(fault)


def _whole_batches(records: bytes) -> bytes:
    """The batches without a torn last one."""
    end = 0
    try:
        for position, header in iter_batches(memoryview(records)):
            end = position + header.size_in_bytes
    except CorruptBatch as error:
        if not end:
            raise RemoteProtocolError(str(error)) from error
    return records[:end]


def _ignore() -> None:
    """Nothing waits for durable records."""


def _ignore_fault(error: BaseException) -> None:
    """Nothing handles storage faults."""
