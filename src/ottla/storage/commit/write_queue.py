"""What a log has staged, written and synced: the bookkeeping of group commit.

`stage` returns where the next bytes are added; `take_staged` makes them a job; `written` and `flushed` record its
success. One write job and one flush job may be outstanding, of which one syncs; what is staged meanwhile waits for
the next.

Two offsets move when a job succeeds. Readers and followers may copy records below `readable_offset`: their bytes
are in the file. Followers may also copy all batches of the write job that is running (`read_staged`), so that they sync
at the same time as this replica. This replica counts records below `committable_offset` toward the high watermark: they
are written, and synced if `flush.messages` requires it. `flushed_offset` is the end of what is synced in any case.

Invariant: flushed_offset <= committable_offset <= readable_offset <= the log end offset.
Concurrency: the log's task only; its jobs run elsewhere.
"""

from __future__ import annotations

from ottla.base.errors import violated
from ottla.storage.commit.write_job import FlushJob, LogLocation, SegmentWrite, WriteJob
from ottla.storage.log.log_slice import StagedSlice
from ottla.storage.log.segment import Segment


class WriteQueue:
    __slots__ = (
        "_flush_job",
        "_fresh",
        "_location",
        "_staged",
        "_unsynced",
        "_write_job",
        "committable_offset",
        "flushed_offset",
        "held",
        "last_flush_ms",
        "readable_offset",
        "truncations",
    )

    def __init__(self, location: LogLocation, end_offset: int, *, fresh: bool) -> None:
        self._location = location
        self._fresh = fresh
        self.readable_offset = end_offset
        self.committable_offset = end_offset
        self.flushed_offset = end_offset
        self.last_flush_ms = 0
        self.held = False
        """Whether staged records wait: no write or flush starts."""
        self.truncations = 0
        """How often records at the end of the log have been removed."""
        self._staged: list[SegmentWrite] = []
        self._write_job: WriteJob | None = None
        self._flush_job: FlushJob | None = None
        self._unsynced: dict[int, Segment] = {}  # segments with written but unsynced bytes, in log order

    @property
    def job_outstanding(self) -> bool:
        return self._write_job is not None or self._flush_job is not None

    @property
    def has_staged(self) -> bool:
        return bool(self._staged)

    def stage(self, segment: Segment, position: int) -> SegmentWrite:
        """Where the bytes of a batch at `position` of `segment` are to be added."""
        staged = self._staged
        if staged and staged[-1].segment is segment:
            return staged[-1]
        write = SegmentWrite(segment, position)
        staged.append(write)
        return write

    def take_staged(self, end_offset: int, flush_messages: int) -> WriteJob | None:
        """All that is staged as one job; it syncs if `flush_messages` records would stay unflushed.

        None while a flush job is outstanding and a sync is due. Two syncs of one file must not run beside each
        other: the system reports an error to one of them, and the other succeeds without the data.
        """
        if not self._staged or self._write_job is not None or self.held:
            return None
        due = end_offset - self.flushed_offset >= flush_messages
        if due and self._flush_job is not None:
            return None
        job = WriteJob(
            self._location,
            self._staged,
            end_offset=end_offset,
            unsynced=list(self._unsynced.values()) if due else None,
            fresh=self._fresh,
        )
        self._staged = []
        self._write_job = job
        return job

    def written(self, job: WriteJob, now_ms: int) -> None:
        if job is not self._write_job:
            violated(f"{self._location.directory}: a write job that is not outstanding was reported")
        self._write_job = None
        for step in job.steps:
            segment = step.segment
            segment.written_size = max(segment.written_size, step.end)
            if job.sync:
                self._unsynced.pop(segment.base_offset, None)
                segment.name_durable = True
            else:
                self._unsynced[segment.base_offset] = segment
        self.readable_offset = job.end_offset
        self.committable_offset = job.end_offset
        if job.sync:
            self._fresh = False
            self.flushed_offset = job.end_offset
            self.last_flush_ms = now_ms

    def take_flush(self, sealed_before: int | None = None) -> FlushJob | None:
        """A job that syncs what is written but not flushed.

        With `sealed_before` only segments based below it. None while another job syncs.
        """
        syncing = self._flush_job is not None or (self._write_job is not None and self._write_job.sync)
        if syncing or self.held:
            return None
        end_offset = self.readable_offset
        segments = list(self._unsynced.values())
        if sealed_before is not None:
            end_offset = min(end_offset, sealed_before)
            segments = [segment for segment in segments if segment.base_offset < sealed_before]
        if not segments:
            return None
        self._flush_job = FlushJob(self._location, segments, end_offset=end_offset, fresh=self._fresh)
        return self._flush_job

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        if job is not self._flush_job:
            violated(f"{self._location.directory}: a flush job that is not outstanding was reported")
        self._flush_job = None
        for (segment, _), size in zip(job.segments, job.sizes, strict=True):
            segment.name_durable = True
            if segment.written_size == size:
                self._unsynced.pop(segment.base_offset, None)
        self._fresh = False
        self.flushed_offset = max(self.flushed_offset, job.end_offset)
        self.last_flush_ms = now_ms

    def read_staged(self, max_bytes: int) -> StagedSlice | None:
        """The batches of the running write job, which begin at the readable offset; None if they do not fit."""
        job = self._write_job
        if job is None:
            return None
        buffers = [buffer for step in job.steps for buffer in step.buffers]
        size = sum(map(len, buffers))
        return StagedSlice(buffers, size, job.end_offset) if size <= max_bytes else None

    def unwritten(self) -> bytes:
        """A copy of the batches that wait to be written; no job may be outstanding."""
        return b"".join(buffer for write in self._staged for buffer in write.buffers)

    def drop_unwritten(self) -> None:
        """Nothing of what is staged has to be written any more."""
        self._staged = []

    def drop(self, segment: Segment) -> None:
        """A segment is removed from the log; nothing of it has to be written any more."""
        self._unsynced.pop(segment.base_offset, None)

    def truncating(self, log_start_offset: int, end_offset: int) -> None:
        """The records at and above `end_offset` are about to be removed; nothing is readable until they are."""
        self.truncations += 1
        self.readable_offset = log_start_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)

    def truncated(self, start_offset: int, end_offset: int) -> None:
        """The records at and above `end_offset` have been removed; a log that starts there has none at all."""
        self.readable_offset = end_offset
        self.committable_offset = end_offset
        self.flushed_offset = max(start_offset, min(self.flushed_offset, end_offset))
