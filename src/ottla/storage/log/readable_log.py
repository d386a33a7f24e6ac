"""The reading side of a log: its offsets, lookups and reads, and what happens when its disk fails.

A read returns a position in a file (`LogSlice`), never staged bytes, and never crosses a segment. `Log` adds what
changes the log.

Concurrency: one owner, the event loop.
Failure: an OSError becomes a `StorageFault` and the log goes offline: every later operation raises
KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.base.errors import ApiError, ErrorCode, StorageFault, violated
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.records.batch import BatchHeader, CorruptBatch, iter_batches
from ottla.storage.commit.write_job import LogLocation
from ottla.storage.commit.write_queue import WriteQueue
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log.log_parts import LogParts
from ottla.storage.log.log_reader import FoundRecord, LogReader
from ottla.storage.log.log_slice import LogSlice, StagedSlice
from ottla.storage.log.segments import Segments


class ReadableLog:
    """Offsets and reads of one replica's log."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        *,
        parts: LogParts,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.log_dir = directory.rpartition("/")[0]
        self.segments = Segments(disk, directory, parts.segments)
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.offline = False
        self.followed = False
        """Whether followers copy from this log: they are notified when a write starts."""
        self.is_copy = False
        """Whether this broker only follows the partition: consumers read from the leader."""
        self._high_watermark = parts.log_start_offset
        self._location = LogLocation(disk, directory, self.log_dir)
        self._writes = WriteQueue(self._location, parts.log_end_offset, fresh=parts.fresh)
        self._reader = LogReader(self.segments, self.log_dir)

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
    def truncations(self) -> int:
        """How often records at the end have been removed since the log was opened."""
        return self._writes.truncations

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

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

    def read_staged(self, max_bytes: int) -> StagedSlice | None:
        """The batches from the readable offset on that are being written; None if they are longer than `max_bytes`."""
        return None if self.offline else self._writes.read_staged(max_bytes)

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
                if header.last_offset < found:
                    raise CorruptBatch(
                        f"{self}: a batch that ends at {header.last_offset} follows offset {found}"
                    )
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

    # --- failure ---

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
