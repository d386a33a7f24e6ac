"""Work on a log that touches the disk beside its writes, as jobs that run in a worker thread.

The log takes a job on the event loop, which makes the change in memory; `run` performs it on the disk; `Log.finished`
records its success on the loop. A log has at most one of these jobs at a time, so that no two of them use the same
files. Appending and reading continue meanwhile, except during a truncation.

Failure: the first OSError becomes a `StorageFault`; nothing is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.base.errors import StorageFault
from ottla.base.files import Disk
from ottla.storage.commit.write_job import FlushJob, LogLocation, WriteJob
from ottla.storage.commit.write_queue import WriteQueue
from ottla.storage.index.epoch_cache import EpochWrite
from ottla.storage.log import log_files
from ottla.storage.log.segment import Segment, SegmentIndexWrite
from ottla.storage.producers.producer_snapshot import SnapshotWrite


class LogJob(Protocol):
    """One piece of work on a log."""

    def run(self) -> None:
        """Do it, in any thread; raises StorageFault."""
        ...

    def finish(self) -> None:
        """Record the success, on the event loop; called by `Log.finished`."""
        ...


@contextmanager
def storage_faults(log_dir: str) -> Iterator[None]:
    """Turn an OSError into a StorageFault of the log directory."""
    try:
        yield
    except OSError as error:
        raise StorageFault(log_dir, error) from error


class CheckpointJob:
    """Make durable what recovery relies on below the recovery point: indexes, a producer snapshot, leader epochs."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        indexes: list[SegmentIndexWrite],
        snapshot: SnapshotWrite | None,
        old_snapshots: list[str],
        epochs: EpochWrite | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._indexes = indexes
        self._snapshot = snapshot
        self._old_snapshots = old_snapshots
        self._epochs = epochs

    def run(self) -> None:
        with storage_faults(self._directory.rpartition("/")[0]):
            for write in self._indexes:
                write.run()
            if self._snapshot is not None:
                self._snapshot.run(sync=True)
                self._disk.sync_dir(self._directory)
            remove_files(self._disk, self._old_snapshots)
            if self._epochs is not None:
                self._epochs.run()

    def finish(self) -> None:
        for write in self._indexes:
            write.finish()
        if self._epochs is not None:
            self._epochs.finish()


class DeletionJob:
    """Give the oldest segments, which the log has dropped, their names of deleted files.

    Each is renamed durably before the next, so that a crash leaves no hole. What producers did in these segments is
    known from snapshots alone afterwards: those are made durable first.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        segments: list[Segment],
        kept_snapshots: list[str],
        old_snapshots: list[str],
        on_done: Callable[[list[Segment]], None],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.segments = segments
        self._kept_snapshots = kept_snapshots
        self._old_snapshots = old_snapshots
        self._on_done = on_done

    def run(self) -> None:
        with storage_faults(self._directory.rpartition("/")[0]):
            for path in self._kept_snapshots:
                sync_file(self._disk, path)
            for segment in self.segments:
                segment.rename(log_files.DELETED)
            remove_files(self._disk, self._old_snapshots)

    def finish(self) -> None:
        self._on_done(self.segments)


class TruncationJob:
    """Remove the records at and above an offset, durably. Nothing is appended or read meanwhile."""

    def __init__(self, log_dir: str, truncate: Callable[[], None], on_done: Callable[[], None]) -> None:
        self._log_dir = log_dir
        self._truncate = truncate
        self._on_done = on_done

    def run(self) -> None:
        with storage_faults(self._log_dir):
            self._truncate()

    def finish(self) -> None:
        self._on_done()


class HoldJob:
    """Keep a log as it is on the disk: staged records wait, and no other job starts. Running writes finish."""

    def __init__(self, writes: WriteQueue) -> None:
        self._writes = writes
        writes.held = True

    @property
    def writing(self) -> bool:
        """Whether a write that had started before is running."""
        return self._writes.job_outstanding

    def unwritten(self) -> bytes:
        """A copy of the batches that wait to be written, from the readable offset on."""
        return self._writes.unwritten()

    def drop_unwritten(self) -> None:
        """Another log has taken over the batches that wait."""
        self._writes.drop_unwritten()

    def run(self) -> None:
        """Do nothing: the log waits until the job is reported as finished."""

    def finish(self) -> None:
        self._writes.held = False


class CloseJob:
    """Write out what the next start would otherwise have to recover.

    `run` makes it durable. For many logs at once it is cheaper to call `write` on each of them, sync the file system,
    call `exchange` on each and sync again: after a crash between the two, an entry of an offset index still implies
    the entries of the other indexes, and the leader epochs are the old ones or the new.
    """

    def __init__(
        self,
        location: LogLocation,
        *,
        jobs: list[WriteJob | FlushJob],
        indexes: list[SegmentIndexWrite],
        snapshot: SnapshotWrite | None,
        epochs: EpochWrite | None,
    ) -> None:
        self._location = location
        self._jobs = jobs
        self._indexes = indexes
        self._snapshot = snapshot
        self._epochs = epochs

    def run(self) -> None:
        for job in self._jobs:
            job.run()
        with storage_faults(self._location.log_dir):
            for write in self._indexes:
                write.run()
            if self._snapshot is not None:
                self._snapshot.run(sync=True)
            if self._epochs is not None:
                self._epochs.run()
            self._location.sync_new()

    def write(self) -> None:
        """Write without a sync what may be written first."""
        for job in self._jobs:
            if isinstance(job, WriteJob):
                job.run()
        with storage_faults(self._location.log_dir):
            for write in self._indexes:
                write.write_before()
            if self._snapshot is not None:
                self._snapshot.run(sync=False)
            if self._epochs is not None:
                self._epochs.prepare()

    def exchange(self) -> None:
        """Write without a sync what relies on the rest being durable."""
        with storage_faults(self._location.log_dir):
            for write in self._indexes:
                write.write_offset_index()
            if self._epochs is not None:
                self._epochs.exchange()


def sync_file(disk: Disk, path: str) -> None:
    """Make the content of a file durable; its name is durable once the directory is synced."""
    file = disk.open(path)
    try:
        file.datasync()
    finally:
        file.close()


def remove_files(disk: Disk, paths: list[str]) -> None:
    """Remove those of the files that exist."""
    for path in paths:
        if disk.exists(path):
            disk.remove(path)
