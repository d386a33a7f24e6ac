"""One replica's log: a row of segments, appended to at the end, read anywhere, cut at both ends.

Offsets, in the order that always holds:

    log_start_offset <= high_watermark <= log_end_offset
    flushed_offset <= committable_offset <= readable_offset <= log_end_offset

`append` decides the offset, checks the producer, rolls to a new segment when one is due, and *stages* the
bytes: the log end offset moves at once, the disk is not touched. `take_staged` hands the staged bytes over as
a `WriteJob` that may run in a worker thread; when it is done, `written` moves the readable and the committable
offset and, if the job synced, the flushed offset. One write job is outstanding at a time, so that everything
appended meanwhile is collected for the next: group commit. A sync is due when `flush.messages` or more records
are not flushed; the job that makes it due performs it. This replica counts a record toward the high watermark
when the committable offset has passed it; followers may copy records below the readable offset.

Readers get a place in a file, never staged bytes. A read never crosses a segment.

Concurrency: one owner, the event loop. A write and a flush job may be running in workers meanwhile;
operations that change what is on the disk below the log end (truncation, closing) demand that none is.

Crash policy: everything below the checkpointed recovery point is durable, indexes and leader epochs included
(`prepare_checkpoint`); what follows it is judged by `recovery`. Whatever shortens the log lowers the
checkpoint first (`on_shorten`), and is durable before anything is appended again.

Failure: an OSError becomes a `StorageFault` and the log goes offline: every later operation answers
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ottla.base.errors import ApiError, ErrorCode, StorageFault, invariant, violated
from ottla.base.files import Buffer, Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.records.batch import TIMESTAMP_TYPE_MASK, BatchHeader, iter_batches
from ottla.storage.commit.write_job import FlushJob, LogPlace, SegmentWrite, WriteJob
from ottla.storage.commit.write_queue import WriteQueue
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log.appended import Appendable, Appended
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.log_parts import LogParts
from ottla.storage.log.log_reader import FoundRecord, LogReader
from ottla.storage.log.log_slice import LogSlice
from ottla.storage.log.retention import RetentionRules, deletable_count
from ottla.storage.log.segment import Segment
from ottla.storage.log.segments import Segments
from ottla.storage.log.staged_run import StagedRun
from ottla.storage.producers.producer_replay import (
    check_producer,
    load_producers,
    read_marker,
    replay,
    replay_segments,
)
from ottla.storage.producers.producer_state import NOT_REQUIRED, CompletedTxn, Verification
from ottla.storage.recovery.batch_scan import check_batches

REREAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""About so much of a segment below the recovery point may have to be read again by recovery."""


def nothing_to_lower(log: Log, end_offset: int) -> None:
    """`on_shorten` of a log that has no checkpoint."""


class Log:
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
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.directory = directory
        self.log_dir = directory.rpartition("/")[0]
        self.segments = Segments(disk, directory, parts.segments)
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.snapshots = parts.snapshots
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.offline = False
        self.closed = False
        self.on_shorten: Callable[[Log, int], None] = nothing_to_lower
        self._high_watermark = parts.log_start_offset
        self._disk = disk
        self._rng = rng
        self._active = self.segments.active
        self._latest_epoch = self._epoch_of_end()
        place = LogPlace(disk, directory, self.log_dir)
        self._writes = WriteQueue(place, parts.log_end_offset, fresh=parts.fresh)
        self._unsynced_indexes = parts.unsynced_indexes  # sealed segments
        self._indexed_size = 0  # of the active segment, when its indexes were last synced
        self._reader = LogReader(self.segments)

    def __str__(self) -> str:
        return f"{self.topic_partition} in {self.log_dir}"

    # --- offsets and sizes ---

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        if offset > self.log_end_offset:
            violated(f"{self}: high watermark {offset} above end {self.log_end_offset}")
        self._high_watermark = max(offset, self.log_start_offset)
        self.producers.high_watermark_moved(offset)

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records stop here: at the first open transaction, or the high watermark."""
        unstable, end = self.producers.first_unstable_offset, self._high_watermark
        return end if unstable is None else min(max(unstable, self.log_start_offset), end)

    @property
    def readable_offset(self) -> int:
        """Records below it are in the file: readers and followers may copy them."""
        return self._writes.readable_offset

    @property
    def committable_offset(self) -> int:
        """This replica counts records below it toward the high watermark: written, and synced if a sync is due."""
        return self._writes.committable_offset

    @property
    def flushed_offset(self) -> int:
        """Records below it are durable."""
        return self._writes.flushed_offset

    @property
    def last_flush_ms(self) -> int:
        return self._writes.last_flush_ms

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, -1 if there is none."""
        return self._latest_epoch

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def job_outstanding(self) -> bool:
        """Whether a worker may be using its files."""
        return self._writes.job_outstanding

    # --- appending ---

    def append(
        self,
        batch: Appendable,
        leader_epoch: int,
        now_ms: int,
        *,
        epoch_per_transaction: bool = False,
        verification: Verification | None = NOT_REQUIRED,
    ) -> Appended:
        """Stage one validated batch at the end of the log.

        A batch longer than `write_job.COPY_BYTES_MAX` is kept by reference: its buffer must not change until
        the readable offset has passed it. Raises ApiError if the producer's epoch or sequence does not fit.
        """
        header = batch.header
        data = batch.data
        size = len(data)
        if self.offline:
            raise self._offline_error()
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {size} bytes does not fit in a segment of {self.config.segment_bytes}",
            )
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        if header.producer_id >= 0:
            earlier = self._append_of_producer(
                batch, leader_epoch, now_ms, epoch_per_transaction, verification
            )
            if earlier is not None:
                return earlier
        else:
            self._place(header, size, base_offset, leader_epoch, now_ms).add(data, base_offset, leader_epoch)
        stamped = header.attributes & TIMESTAMP_TYPE_MASK
        return Appended(base_offset, last_offset, header.max_timestamp if stamped else -1)

    def _append_of_producer(
        self,
        batch: Appendable,
        leader_epoch: int,
        now_ms: int,
        epoch_per_transaction: bool,
        verification: Verification | None,
    ) -> Appended | None:
        """Check and append a batch with a producer id; returns where it lies if it is there already."""
        header = batch.header
        data = batch.data
        marker, duplicate = check_producer(self.producers, data, header, epoch_per_transaction, verification)
        if duplicate is not None:
            return Appended(duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, True)
        base_offset = self.log_end_offset
        place = self._place(header, len(data), base_offset, leader_epoch, now_ms)
        place.add(data, base_offset, leader_epoch)
        self._note_ended(replay(self.producers, header, base_offset, marker))
        return None

    def run_room(self, leader_epoch: int) -> tuple[int, int, int, int, int] | None:
        """What a run of batches may use of the active segment (`Segment.run_room`); None if it may not."""
        if self.offline or leader_epoch != self._latest_epoch:
            return None
        return self._active.run_room(self.config)

    def append_run(self, run: StagedRun) -> None:
        """Stage a run that was made for the room `run_room` told; nothing may have been appended since."""
        data = run.data
        position = self._active.note_run(len(data), run)
        self.log_end_offset = run.next_offset
        self._writes.stage(self._active, position).add_owned(data)

    def append_raw(self, batches: Buffer, now_ms: int) -> Appended:
        """Stage batches that carry their offsets and epochs, as a follower or the metadata log gets them.

        They are checked (form, CRC, increasing offsets) before anything is staged; gaps are allowed.
        """
        if self.offline:
            raise self._offline_error()
        view = memoryview(batches)
        placed = check_batches(view, self.log_end_offset)
        for position, header in placed:
            size = header.size_in_bytes
            data = view[position : position + size]
            epoch = header.partition_leader_epoch
            self._place(header, size, header.base_offset, epoch, now_ms).add_raw(data)
            if header.producer_id >= 0:
                marker = read_marker(data, header) if header.is_control else None
                self._note_ended(replay(self.producers, header, header.base_offset, marker))
        return Appended(placed[0][1].base_offset, placed[-1][1].last_offset)

    def _place(
        self, header: BatchHeader, size: int, base_offset: int, leader_epoch: int, now_ms: int
    ) -> SegmentWrite:
        """Make room for a batch at the end; the caller adds the bytes to the returned write."""
        active = self._active
        last_offset = base_offset + header.last_offset_delta
        if active.must_roll(size, last_offset, header.max_timestamp, self.config, now_ms):
            active = self._roll(base_offset, now_ms)
        position = active.note_batch(last_offset, header.max_timestamp, size)
        self.log_end_offset = last_offset + 1
        if leader_epoch != self._latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, base_offset)
            self._latest_epoch = leader_epoch
        return self._writes.stage(active, position)

    def _note_ended(self, ended: CompletedTxn | None) -> None:
        if ended is not None and ended.aborted:
            self._active.txn_index.append(
                AbortedTxn(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
            )

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the end of the log, unless the active one is empty."""
        if self._active.size:
            self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self._active
        with self._faults():
            if old.size == 0:
                # Nothing is in it, and the next offset is out of its reach.
                self.segments.remove_last()
            else:
                old.seal()
                self._unsynced_indexes.append(old)
            self.producers.end_offset = base_offset
            self.snapshots.take(self.producers, sync=False)
            return self._start_segment(base_offset, now_ms)

    def _start_segment(self, base_offset: int, now_ms: int) -> Segment:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        jitter_ms = self._rng.randrange(limit) if limit > 0 else 0
        self._active = Segment.create(
            self._disk, self.directory, base_offset, self.config, now_ms=now_ms, jitter_ms=jitter_ms
        )
        self.segments.add(self._active)
        self._indexed_size = 0
        return self._active

    # --- writing ---

    def take_staged(self) -> WriteJob | None:
        """A job that writes what was appended since the last call; None if nothing was, or one is running."""
        if self.offline:
            return None
        return self._writes.take_staged(self.log_end_offset, self.config.flush_messages)

    def written(self, job: WriteJob, now_ms: int) -> None:
        """A write job has succeeded: its records are in the file, and durable if it synced."""
        self._writes.written(job, now_ms)

    def take_flush(self, *, sealed_only: bool = False) -> FlushJob | None:
        """A job that syncs what is written but not flushed; None if that is nothing, or one is running."""
        if self.offline:
            return None
        return self._writes.take_flush(self._active.base_offset if sealed_only else None)

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        """A flush job has succeeded."""
        self._writes.flushed(job, now_ms)

    def flush(self, now_ms: int) -> None:
        """Write and sync everything, here and now. Demands that no job is outstanding."""
        invariant(not self._writes.job_outstanding, f"{self}: flushed while a job is outstanding")
        write = self.take_staged()
        if write is not None:
            write.run()
            self.written(write, now_ms)
        flush = self.take_flush()
        if flush is not None:
            flush.run()
            self.flushed(flush, now_ms)

    def prepare_checkpoint(self) -> int:
        """Make durable what recovery takes for granted below the recovery point, and return that point.

        The indexes of the active segment, and a snapshot of the producers, are only brought up to date now and
        then: recovery reads again what the last indexes on the disk do not cover.
        """
        offset = self.flushed_offset
        active = self._active
        with self._faults():
            while self._unsynced_indexes and self._unsynced_indexes[0].base_offset < offset:
                self._unsynced_indexes.pop(0).sync_indexes()
            if active.size - self._indexed_size >= REREAD_BYTES_MAX:
                self._indexed_size = active.size
                active.sync_indexes()
                self.producers.end_offset = self.log_end_offset
                self.snapshots.take(self.producers)
                self.snapshots.thin_out(self.segments.bases)
                self._disk.sync_dir(self.directory)
            else:
                active.sync_txn_index()
            self.epochs.flush()
        return offset

    # --- reading ---

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool = True) -> LogSlice:
        """Batches from the one that holds `offset` on, below `upto` and at most `max_bytes` long.

        With `min_one` the first batch is returned whole even if it is longer; without, the slice is then
        empty.
        """
        if self.offline:
            raise self._offline_error()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {offset} is outside of {self.log_start_offset} to {self.log_end_offset}",
            )
        readable_offset = self._writes.readable_offset
        limit = min(upto, readable_offset)
        try:
            return self._reader.read(
                offset, max_bytes, limit=limit, readable_offset=readable_offset, min_one=min_one
            )
        except OSError as error:
            raise self._fault(error) from error

    def offset_for_timestamp(self, timestamp: int) -> FoundRecord | None:
        """The first record at or after a time. The caller holds it against the high watermark."""
        with self._faults():
            return self._reader.first_at_or_after(timestamp, self.log_start_offset)

    def max_timestamp(self) -> FoundRecord | None:
        """The first of the records with the greatest timestamp."""
        with self._faults():
            return self._reader.latest()

    def batches(
        self, offset: int, *, upto: int, chunk_bytes: int = 1 << 20
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Each batch from the one that holds `offset` on, below `upto`.

        Header and bytes. Not for the fetch path.
        """
        while offset < upto:
            data = memoryview(self.read_bytes(offset, chunk_bytes, upto=upto))
            found = offset
            for position, header in iter_batches(data):
                yield header, data[position : position + header.size_in_bytes]
                found = header.last_offset + 1
            if found == offset:
                return
            offset = found

    def read_bytes(self, offset: int, max_bytes: int, *, upto: int) -> bytes:
        """What `read` finds, read."""
        found = self.read(offset, max_bytes, upto=upto)
        with self._faults():
            return found.read()

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that have records in [start_offset, end_offset)."""
        with self._faults():
            return self.segments.aborted_transactions(start_offset, end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest leader epoch at or below `epoch`; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # --- cutting ---

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Cut the records at and above `offset`, durably.

        False if there are none. No job may be outstanding.
        """
        if offset >= self.log_end_offset:
            return False
        self.flush(now_ms)
        with self._faults():
            self.on_shorten(self, offset)
            if offset < self.segments.first.base_offset:
                self._restart_at(offset, now_ms)
                return True
            # Newest first, each for good before the next, so that a crash leaves no hole.
            while self.segments.active.base_offset > offset:
                self._writes.drop(self.segments.remove_last())
            self._active = self.segments.active
            self._active.truncate_to(offset)
            self._end_moved(offset)
            load_producers(self.producers, self.snapshots, self.segments, offset, now_ms)
            replay_segments(self.producers, self.segments.from_offset(self.producers.end_offset), offset)
            self.producers.high_watermark_moved(self._high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and go on at `offset`, durably. No job may be outstanding."""
        self.flush(now_ms)
        with self._faults():
            self.on_shorten(self, offset)
            self._restart_at(offset, now_ms)

    def _restart_at(self, offset: int, now_ms: int) -> None:
        while len(self.segments):
            self._writes.drop(self.segments.remove_last())
        self.snapshots.delete_all()
        self._start_segment(offset, now_ms)
        self._disk.sync_dir(self.directory)
        self._active.name_durable = True
        self.log_start_offset = offset
        self._end_moved(offset)
        self.producers.clear(offset)

    def _end_moved(self, offset: int) -> None:
        self.epochs.truncate_from_end(offset)
        self.epochs.flush()
        self._latest_epoch = self._epoch_of_end()
        self.log_end_offset = offset
        self._writes.truncated(offset)
        self._high_watermark = max(self.log_start_offset, min(self._high_watermark, offset))
        self._reader.forget()
        self._indexed_size = self._active.size
        self._unsynced_indexes = [
            s for s in self._unsynced_indexes if s.base_offset < self._active.base_offset
        ]

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records below `offset`; False if they are gone already."""
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

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that retention lets go, oldest first; returns how many."""
        if self.offline:
            return 0
        with self._faults():
            rules = RetentionRules(self.config.deleted, self.config.retention_ms, self.config.retention_bytes)
            count = deletable_count(
                list(self.segments),
                rules,
                log_start_offset=self.log_start_offset,
                high_watermark=self._high_watermark,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
            )
            if count == len(self.segments):
                self.roll(now_ms)
            self._delete_first(count, now_ms)
        return count

    def _delete_first(self, count: int, now_ms: int) -> None:
        if count == 0:
            return
        first = self.segments[count].base_offset
        self.increment_log_start_offset(max(self.log_start_offset, first))
        # What producers did in the segments that go is known from the snapshots alone.
        for segment in self.segments[1 : count + 1]:
            self.snapshots.sync(segment.base_offset)
        self._forget(self.segments.doom_first(count, now_ms + self.config.file_delete_delay_ms))
        self.snapshots.delete_before(first)

    def replace_segments(self, old: list[Segment], new: Segment, now_ms: int) -> None:
        """Compaction puts `new`, complete and synced under `.cleaned`, in the place of sealed segments."""
        with self._faults():
            self.segments.replace(old, new, now_ms + self.config.file_delete_delay_ms)
            self._forget(old)
            for segment in old[1:]:
                self.snapshots.delete(segment.base_offset)

    def _forget(self, gone: list[Segment]) -> None:
        for segment in gone:
            self._writes.drop(segment)
        self._unsynced_indexes = [each for each in self._unsynced_indexes if each not in gone]

    # --- the end ---

    def reconfigure(self, config: LogConfig) -> None:
        """Settings changed; they hold from the next append on."""
        self.config = config

    def close(self, now_ms: int) -> None:
        """Write everything out so that the next start needs no recovery. No job may be outstanding."""
        if self.closed:
            return
        if not self.offline:
            self.flush(now_ms)
            with self._faults():
                self._active.seal()
                self._unsynced_indexes.append(self._active)
                for segment in self._unsynced_indexes:
                    segment.sync_indexes()
                self._unsynced_indexes.clear()
                self.epochs.flush()
                self.producers.end_offset = self.log_end_offset
                self.snapshots.take(self.producers)
                self._writes.sync_place()
        self.closed = True
        self.segments.close()

    def leave(self, directory: str) -> None:
        """The partition is being deleted and its directory now has another name.

        What is under way is forgotten.
        """
        self.closed = True
        self.directory = directory
        self.segments.move(directory)

    def fail(self) -> None:
        """Its directory has failed: nothing more is read or written here."""
        self.offline = True

    # --- failure ---

    def _epoch_of_end(self) -> int:
        latest = self.epochs.latest_epoch
        return -1 if latest is None else latest

    def _offline_error(self) -> ApiError:
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {self.log_dir} is offline")

    def _fault(self, error: OSError) -> StorageFault:
        self.offline = True
        return StorageFault(self.log_dir, error)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error
        except StorageFault:
            self.offline = True
            raise
