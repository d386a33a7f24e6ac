"""Appending to a log: the part of `log.Log` that decides offsets and segments, and *stages* the bytes.

`append` decides the offset, checks the producer, and rolls to a new segment when one is due. `append_raw` keeps the
offsets and epochs of the batches, and `append_bulk` takes batches that were checked together. The log end offset moves
at once. The disk is not used, except by a roll, which creates the file of the segment and writes a snapshot of the
producers. Runs on the event loop only.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Buffer, Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.records.batch import TIMESTAMP_TYPE_MASK, BatchHeader, CorruptBatch, read_header
from ottla.records.validation import BatchRules
from ottla.storage.commit.write_job import SegmentWrite
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log.appended import Appendable, Appended
from ottla.storage.log.bulk_append import AppendLimits, BulkAppend
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.log_parts import LogParts
from ottla.storage.log.raw_append import EPOCH_MAX, check_batch, scan_raw
from ottla.storage.log.readable_log import ReadableLog
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_replay import check_producer, read_marker, replay
from ottla.storage.producers.producer_state import NOT_REQUIRED, CompletedTxn, Verification


class AppendableLog(ReadableLog):
    """A log with its end, where batches are appended."""

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
        super().__init__(disk, directory, topic_partition, topic_id, parts=parts)
        self.config = config
        self.snapshots = parts.snapshots
        self._disk = disk
        self._rng = rng
        self._active = self.segments.active
        self._latest_epoch = self._epoch_of_end()
        self._unsynced_indexes = parts.unsynced_indexes  # sealed segments
        self._indexed_size = 0  # of the active segment, when its indexes were last synced

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, -1 if there is none."""
        return self._latest_epoch

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
            self._accept(header, size, base_offset, leader_epoch, now_ms).add(data, base_offset, leader_epoch)
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
        """Check and append a batch with a producer id; returns its position if it is a duplicate."""
        header = batch.header
        data = batch.data
        marker, duplicate = check_producer(self.producers, data, header, epoch_per_transaction, verification)
        if duplicate is not None:
            return Appended(duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, True)
        base_offset = self.log_end_offset
        staged = self._accept(header, len(data), base_offset, leader_epoch, now_ms)
        staged.add(data, base_offset, leader_epoch)
        self._note_ended(replay(self.producers, header, base_offset, marker))
        return None

    def bulk_limits(self, leader_epoch: int, rules: BatchRules, now_ms: int) -> AppendLimits | None:
        """Return the limits of a bulk append; None if the next batch must be appended singly."""
        if self.offline or leader_epoch != self._latest_epoch:
            return None
        return self._active.bulk_limits(self.log_end_offset, leader_epoch, self.config, rules, now_ms)

    def append_bulk(self, bulk: BulkAppend) -> None:
        """Stage a bulk append within the limits of `bulk_limits`; nothing may have been appended since."""
        data = bulk.data
        position = self._active.note_bulk(len(data), bulk)
        self.log_end_offset = bulk.next_offset
        self._writes.stage(self._active, position).add_owned(data)

    def append_raw(self, batches: Buffer, now_ms: int, *, epoch_max: int = EPOCH_MAX) -> Appended:
        """Stage batches that carry their offsets and epochs, as a follower or the metadata log gets them.

        Each is checked: form, CRC, increasing offsets (gaps are allowed), a leader epoch that does not decrease and is
        at most `epoch_max`. The batches before the first that is torn or fails a check are staged. ApiError if there
        are none. Buffers longer than `write_job.COPY_BYTES_MAX` are kept by reference, as in `append`.
        """
        if self.offline:
            raise self._offline_error()
        view = memoryview(batches)
        first = position = 0
        while position < len(view):
            position = self._append_scanned(view, position)
            try:
                header = check_batch(
                    view,
                    position,
                    next_offset=self.log_end_offset,
                    epoch_min=self._latest_epoch,
                    epoch_max=epoch_max,
                )
            except ApiError:
                if position == first:
                    raise
                break
            if header is None:
                break
            self._append_copied(header, view[position : position + header.size_in_bytes], now_ms)
            position += header.size_in_bytes
        if position == first:
            raise CorruptBatch(f"{len(view)} bytes are no whole batch")
        return Appended(read_header(view).base_offset, self.log_end_offset - 1)

    def _append_scanned(self, view: memoryview, position: int) -> int:
        """Stage the batches that fit behind the end of the active segment; returns the position after them."""
        active = self._active
        limits = active.raw_limits(self.log_end_offset, self._latest_epoch, self.config)
        found = None if limits is None else scan_raw(view, position, limits)
        if found is None:
            return position
        end, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry, producers = found
        data = view[position:end]
        at = active.note_bulk(
            len(data),
            BulkAppend(data, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry),
        )
        self.log_end_offset = next_offset
        self._writes.stage(active, at).add_raw(data)
        for batch in producers:
            header = read_header(view, batch)
            self._replay(header, view[batch : batch + header.size_in_bytes])
        return end

    def _append_copied(self, header: BatchHeader, data: memoryview, now_ms: int) -> None:
        epoch = header.partition_leader_epoch
        self._accept(header, len(data), header.base_offset, epoch, now_ms).add_raw(data)
        if header.producer_id >= 0:
            self._replay(header, data)

    def _replay(self, header: BatchHeader, data: memoryview) -> None:
        marker = read_marker(data, header) if header.is_control else None
        self._note_ended(replay(self.producers, header, header.base_offset, marker))

    def _accept(
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

    def _epoch_of_end(self) -> int:
        latest = self.epochs.latest_epoch
        return -1 if latest is None else latest
