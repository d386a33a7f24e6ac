"""One replica's log: a list of segments, appended to at the end and shortened at both ends.

Offsets, in the order that always holds:

    log_start_offset <= high_watermark <= log_end_offset
    flushed_offset <= committable_offset <= readable_offset <= log_end_offset

Appended batches are *staged* (`appendable_log`). `take_staged` returns the staged bytes as a `WriteJob` that may run in
a worker thread; when it is done, `written` moves the readable and the committable offset and, if the job synced, the
flushed offset. One write job is outstanding at a time, so that everything appended meanwhile is collected for the next:
group commit. A sync is due when `flush.messages` or more records are not flushed; the job that makes it due performs
it. This replica counts a record toward the high watermark when the committable offset has passed it; followers may copy
records below the readable offset.

Reading is in `readable_log`. The work on the disk beside writes (checkpoint, retention, truncation, closing) is taken
as jobs (`log_jobs`).

Concurrency: one owner, the event loop. A write, a flush and one other job may be running in workers meanwhile. A
truncation and closing require that no job is outstanding.

Crash policy: everything below the checkpointed recovery point is durable, indexes and leader epochs included
(`take_checkpoint`); recovery checks what follows it. A truncation is durable before anything is appended again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.storage.commit.write_job import FlushJob, WriteJob
from ottla.storage.log.appendable_log import AppendableLog
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.log_jobs import CheckpointJob, CloseJob, DeletionJob, HoldJob, LogJob, TruncationJob
from ottla.storage.log.log_parts import LogParts
from ottla.storage.log.retention import RetentionRules, deletable_count
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_replay import load_producers, replay_segments

REREAD_BYTES_MAX: Final = 2 * 1024 * 1024
"""About so much of a segment below the recovery point may have to be read again by recovery: 20,000 small batches."""
_NEVER_SAVED: Final = -1


class Log(AppendableLog):
    """One replica's log."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        *,
        config: LogConfig,
        parts: LogParts,
        rng: Random,
    ) -> None:
        super().__init__(disk, directory, topic_partition, topic_id, config=config, parts=parts, rng=rng)
        self.closed = False
        self._job: LogJob | None = None
        self._idle_callbacks: list[Callable[[], None]] = []
        # The log end at which the disk has all that a clean stop writes.
        self._saved_end = parts.log_end_offset if parts.saved or parts.fresh else _NEVER_SAVED

    @property
    def job_outstanding(self) -> bool:
        """Whether a worker may be using its files."""
        return self._job is not None or self._writes.job_outstanding

    @property
    def job_beside_writes(self) -> bool:
        """Whether a job other than a write or a flush is outstanding."""
        return self._job is not None

    @property
    def truncating(self) -> bool:
        """Whether a truncation is outstanding: nothing may be appended."""
        return isinstance(self._job, TruncationJob)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no job is outstanding and nothing is staged, at once if that is so; or on a failure."""
        self._idle_callbacks.append(callback)
        self._notify_idle()

    @property
    def awaited(self) -> bool:
        """Whether callbacks wait until the log is idle."""
        return bool(self._idle_callbacks)

    def _notify_idle(self) -> None:
        callbacks = self._idle_callbacks
        while callbacks and (self.offline or not (self.job_outstanding or self._writes.has_staged)):
            callbacks.pop(0)()

    # --- writing ---

    def take_staged(self) -> WriteJob | None:
        """A job that writes what was appended since the last call; None if nothing was, or one is running."""
        if self.offline:
            return None
        return self._writes.take_staged(self.log_end_offset, self.config.flush_messages)

    def written(self, job: WriteJob, now_ms: int) -> None:
        """A write job has succeeded: its records are in the file, and durable if it synced."""
        self._writes.written(job, now_ms)
        if self._idle_callbacks:
            self._notify_idle()

    def take_flush(self, *, sealed_only: bool = False) -> FlushJob | None:
        """A job that syncs what is written but not flushed; None if that is nothing, or one is running."""
        if self.offline or self.truncating:
            return None
        return self._writes.take_flush(self._active.base_offset if sealed_only else None)

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        """A flush job has succeeded."""
        self._writes.flushed(job, now_ms)
        if self._idle_callbacks:
            self._notify_idle()

    def flush(self, now_ms: int) -> None:
        """Write and sync everything in the calling thread. No job may be outstanding."""
        invariant(not self._writes.job_outstanding, f"{self}: flushed while a job is outstanding")
        write = self.take_staged()
        if write is not None:
            write.run()
            self.written(write, now_ms)
        flush = self.take_flush()
        if flush is not None:
            flush.run()
            self.flushed(flush, now_ms)

    # --- jobs beside the writes ---

    def take_checkpoint(self) -> CheckpointJob | None:
        """A job that makes durable what recovery relies on below the flushed offset; None if all of it is.

        The indexes of the active segment, and a snapshot of the producers, are only brought up to date now and
        then: recovery reads again what the last indexes on the disk do not cover.
        """
        offset = self.flushed_offset
        active = self._active
        indexes = []
        snapshot, old_snapshots = None, []
        with self._faults():
            while self._unsynced_indexes and self._unsynced_indexes[0].base_offset < offset:
                indexes.append(self._unsynced_indexes.pop(0).take_index_write())
            if active.size - self._indexed_size >= REREAD_BYTES_MAX:
                self._indexed_size = active.size
                indexes.append(active.take_index_write())
                self.producers.end_offset = self.log_end_offset
                snapshot = self.snapshots.take_write(self.producers)
                old_snapshots = self.snapshots.thin_out(self.segments.bases)
            elif active.txn_index.needs_write:
                indexes.append(active.take_index_write(txn_only=True))
            epochs = self.epochs.take_write(offset)
        if not indexes and epochs is None:
            return None
        job = CheckpointJob(
            self._disk,
            self.directory,
            indexes=indexes,
            snapshot=snapshot,
            old_snapshots=old_snapshots,
            epochs=epochs,
        )
        self._begin(job)
        return job

    def take_hold(self) -> HoldJob | None:
        """A job during which the log does not change on the disk; None if another job is outstanding."""
        if self.offline or self._job is not None:
            return None
        job = HoldJob(self._writes)
        self._begin(job)
        return job

    def finished(self, job: LogJob) -> None:
        """A job of this log has succeeded."""
        invariant(job is self._job, f"{self}: a job that is not outstanding was reported")
        self._job = None
        job.finish()
        if self._idle_callbacks:
            self._notify_idle()

    def perform(self, job: LogJob) -> None:
        """Run a job in the calling thread, for logs whose owner may wait."""
        with self._faults():
            job.run()
        self.finished(job)

    def _begin(self, job: LogJob) -> None:
        invariant(self._job is None, f"{self}: a second job while one is outstanding")
        self._job = job

    # --- removing records ---

    def take_truncation(self, offset: int, now_ms: int) -> TruncationJob | None:
        """A job that removes the records at and above `offset`, durably; None if there are none.

        No job may be outstanding and nothing staged. The checkpoints must be lowered, durably, before it runs
        (`LogDir.truncate`). Until it has finished, nothing is readable.
        """
        if offset >= self.log_end_offset:
            return None
        return self._take_truncation(offset, lambda: self._truncate(offset, now_ms))

    def take_restart(self, offset: int, now_ms: int) -> TruncationJob:
        """A job that removes all records, durably, so that the log continues at `offset`; as `take_truncation`."""
        return self._take_truncation(offset, lambda: self._restart_at(offset, now_ms))

    def _take_truncation(self, offset: int, truncate: Callable[[], None]) -> TruncationJob:
        invariant(not self.job_outstanding, f"{self}: truncated while a job is outstanding")
        invariant(not self._writes.has_staged, f"{self}: truncated while records are staged")
        self._writes.truncating(self.log_start_offset, offset)
        job = TruncationJob(self.log_dir, truncate, self._truncated)
        self._begin(job)
        return job

    def _truncated(self) -> None:
        self._writes.truncated(self.segments.first.base_offset, self.log_end_offset)

    def _truncate(self, offset: int, now_ms: int) -> None:
        if offset < self.segments.first.base_offset:
            self._restart_at(offset, now_ms)
            return
        # Newest first, each durably before the next, so that a crash leaves no hole.
        while self.segments.active.base_offset > offset:
            self._writes.drop(self.segments.remove_last())
        self._active = self.segments.active
        self._active.truncate_to(offset)
        self._end_moved(offset)
        load_producers(self.producers, self.snapshots, self.segments, offset, now_ms)
        replay_segments(self.producers, self.segments.from_offset(self.producers.end_offset), offset)
        self.producers.high_watermark_moved(self._high_watermark)

    def _restart_at(self, offset: int, now_ms: int) -> None:
        while len(self.segments):
            self._writes.drop(self.segments.remove_last())
        self.snapshots.delete_all()
        self._start_segment(offset, now_ms)
        self._disk.sync_dir(self.directory)
        self._active.name_durable = True
        self.log_start_offset = offset
        self.epochs.clear()
        self._end_moved(offset)
        self.producers.clear(offset)

    def _end_moved(self, offset: int) -> None:
        self.epochs.truncate_from_end(offset)
        self.epochs.flush()
        self._latest_epoch = self._epoch_of_end()
        self.log_end_offset = offset
        self._saved_end = _NEVER_SAVED
        self._high_watermark = max(self.log_start_offset, min(self._high_watermark, offset))
        self._reader.forget()
        self._indexed_size = self._active.size
        self._unsynced_indexes = [
            s for s in self._unsynced_indexes if s.base_offset < self._active.base_offset
        ]

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start to `offset`; False if it is there or above already."""
        if offset > self._high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: log start {offset} is above the high watermark {self._high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)
        return True

    def take_deletion(self, now_ms: int) -> DeletionJob | None:
        """A job for the oldest segments that retention deletes; None if there are none, or a job is outstanding."""
        if self.offline or self._job is not None:
            return None
        with self._faults():
            rules = RetentionRules(self.config.deleted, self.config.retention_ms, self.config.retention_bytes)
            count = deletable_count(
                self.segments,
                rules,
                log_start_offset=self.log_start_offset,
                high_watermark=self._high_watermark,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
            )
            if count == 0:
                return None
            if count == len(self.segments):
                self.roll(now_ms)
        return self._take_deletion(count, now_ms + self.config.file_delete_delay_ms)

    def _take_deletion(self, count: int, remove_at_ms: int) -> DeletionJob:
        first = self.segments[count].base_offset
        self.increment_log_start_offset(max(self.log_start_offset, first))
        snapshots = set(self.snapshots.offsets)
        kept = [each.base_offset for each in self.segments[1 : count + 1] if each.base_offset in snapshots]
        deleted = self.segments.take_first(count)
        self._forget(deleted)
        job = DeletionJob(
            self._disk,
            self.directory,
            segments=deleted,
            kept_snapshots=[self.snapshots.path(offset) for offset in kept],
            old_snapshots=self.snapshots.forget_before(first),
            on_done=partial(self.segments.keep_deleted, remove_at_ms),
        )
        self._begin(job)
        return job

    def replace_segments(self, old: list[Segment], new: Segment, now_ms: int) -> None:
        """Compaction puts `new`, complete and synced under `.cleaned`, instead of sealed segments."""
        invariant(self._job is None, f"{self}: segments replaced while a job is outstanding")
        with self._faults():
            self.segments.replace(old, new, now_ms + self.config.file_delete_delay_ms)
            self._forget(old)
            for segment in old[1:]:
                self.snapshots.delete(segment.base_offset)

    def _forget(self, dropped: list[Segment]) -> None:
        for segment in dropped:
            self._writes.drop(segment)
        self._unsynced_indexes = [each for each in self._unsynced_indexes if each not in dropped]

    # --- the end ---

    def reconfigure(self, config: LogConfig) -> None:
        """Settings changed; they hold from the next append on."""
        self.config = config

    def close(self, now_ms: int) -> None:
        """Write everything out, durably, so that the next start needs no recovery. No job may be outstanding."""
        job = self.take_close(now_ms)
        if job is not None:
            job.run()
        self.segments.close()

    def take_close(self, now_ms: int) -> CloseJob | None:
        """The last job of a log, after which it is closed (`close`); None if the disk has everything."""
        if self.closed:
            return None
        self.closed = True
        if self.offline or self.log_end_offset == self._saved_end:
            return None
        invariant(not self.job_outstanding, f"{self}: closed while a job is outstanding")
        jobs: list[WriteJob | FlushJob] = []
        write = self.take_staged()
        if write is not None:
            jobs.append(write)
            self.written(write, now_ms)
        flush = self.take_flush()
        if flush is not None:
            jobs.append(flush)
            self.flushed(flush, now_ms)
        with self._faults():
            self._active.seal()
            self.producers.end_offset = self.log_end_offset
            return CloseJob(
                self._location,
                jobs=jobs,
                indexes=[segment.take_index_write() for segment in [*self._unsynced_indexes, self._active]],
                snapshot=self.snapshots.take_write(self.producers),
                epochs=self.epochs.take_write(self.log_end_offset),
            )

    def moved(self, directory: str) -> None:
        """The directory of the partition, which is being deleted, has another name now."""
        self.directory = directory
        self.segments.move(directory)

    def fail(self) -> None:
        """Its directory has failed: nothing more is read or written here."""
        self.offline = True
        self._notify_idle()
