"""One segment of a log: a file of record batches, its indexes, and what must be known about both.

Layout of the log file: record batches, nothing between or around them. Names are in `log_files`, index
layouts in `offset_index`, `time_index` and `txn_index`.

Two sizes: `size` counts every batch appended, `written_size` those that are in the file. Between the two lie
bytes that are staged in memory or being written by a worker; readers are limited to `written_size`. Up to
`released_size` the page cache has been asked to write the file to the disk, if the log is only followed; the first
window counts as released from the beginning, so that small segments stay in the cache. Up to `reserved_size` there is
space on the disk for what will be written (`commit.space_reservation`).

A segment is active (the last one, appended to) or sealed (never changed again, except that compaction
replaces it). The log file is opened when first needed, the indexes are read when first needed, so that a
broker with many old segments starts fast and holds few descriptors.

Concurrency: the log's task only. A worker is given the open file, never the segment.
Crash policy: the log file is the truth; an index that is missing or contradicts itself is rebuilt from it.
"""

from __future__ import annotations

from typing import Final

from ottla.base.files import Disk, File
from ottla.records.batch import HEADER_SIZE, NO_TIMESTAMP, TIMESTAMP_MAX
from ottla.records.validation import BatchRules
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex, IndexWrite
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.index.txn_index import TxnIndex
from ottla.storage.log import log_files
from ottla.storage.log.bulk_append import AppendLimits, BulkAppend
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.raw_reference import RawLimits
from ottla.storage.recovery.batch_scan import BatchPosition, find_offset, find_timestamp, walk

WINDOW_BYTES: Final = 8 * 1024 * 1024
"""The log file of a followed partition leaves the page cache in windows of this size (`commit.cache_release`)."""

_LOOK_AHEAD: Final = 4096
# A bulk append is received into one buffer; it cannot make more index entries than this.
_BULK_ENTRIES_MAX: Final = 1024
_UNKNOWN: Final = -2  # a timestamp that has not been read from the disk yet


class SegmentIndexWrite:
    """A write of a segment's indexes; `run` may be called in a worker thread.

    The offset index is written after all others are durable, with their names.
    """

    __slots__ = ("_before", "_directory", "_disk", "_offset_index")

    def __init__(
        self, disk: Disk, directory: str, before: list[IndexWrite], offset_index: list[IndexWrite]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._before = before
        self._offset_index = offset_index

    def run(self) -> None:
        for writes in (self._before, self._offset_index):
            for write in writes:
                write.run(sync=True)
            if any(write.creates for write in writes):
                self._disk.sync_dir(self._directory)

    def write_before(self) -> None:
        """Write all but the offset index, without a sync."""
        for write in self._before:
            write.run(sync=False)

    def write_offset_index(self) -> None:
        """Write the offset index, without a sync."""
        for write in self._offset_index:
            write.run(sync=False)

    def finish(self) -> None:
        """Record the success, on the event loop."""
        for write in self._before + self._offset_index:
            write.finish()


class Segment:
    __slots__ = (
        "_bytes_since_entry",
        "_created_ms",
        "_directory",
        "_disk",
        "_file",
        "_first_timestamp",
        "_index_interval",
        "_indexes_checked",
        "_max_timestamp",
        "_max_timestamp_offset",
        "base_offset",
        "index_full",
        "jitter_ms",
        "name_durable",
        "offset_index",
        "released_size",
        "reserved_size",
        "size",
        "suffix",
        "time_index",
        "txn_index",
        "written_size",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int | None,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """Use `create` or `load`; this only names things."""
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = 0
        self.written_size = 0
        self.released_size = WINDOW_BYTES
        self.reserved_size = 0
        self._created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.name_durable = True
        self.index_full = False
        self._index_interval = config.index_interval_bytes
        self._indexes_checked = False
        self._bytes_since_entry = 0
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = _UNKNOWN
        self._max_timestamp_offset = base_offset
        self._file: File | None = None
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(disk, self.path_of(log_files.OFFSET_INDEX), base_offset, index_bytes)
        self.time_index = TimeIndex(disk, self.path_of(log_files.TIME_INDEX), base_offset, index_bytes)
        self.txn_index = TxnIndex(disk, self.path_of(log_files.TXN_INDEX), base_offset)

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        jitter_ms: int,
        suffix: str = "",
    ) -> Segment:
        """A new, empty segment with its log file, whose name is durable once the directory is synced.

        Index files are created when they are first written.
        """
        made = cls(
            disk, directory, base_offset, config, created_ms=now_ms, jitter_ms=jitter_ms, suffix=suffix
        )
        made._max_timestamp = NO_TIMESTAMP
        made._indexes_checked = True
        made.name_durable = False
        made._file = disk.open(made.path, create=True)
        if made._file.size():
            made._file.truncate(0)
        for index in (made.offset_index, made.time_index, made.txn_index):
            index.start_empty()
        return made

    @classmethod
    def load(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> Segment:
        """A segment that exists. Nothing is read but the size."""
        made = cls(disk, directory, base_offset, config, created_ms=None, jitter_ms=jitter_ms, suffix=suffix)
        made.size = made.written_size = disk.file_size(made.path)
        return made

    @property
    def path(self) -> str:
        return self.path_of(log_files.LOG)

    def path_of(self, kind: str) -> str:
        return log_files.segment_file(self._directory, self.base_offset, kind) + self.suffix

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    @property
    def created_ms(self) -> int:
        """When the segment was created; of one that was loaded, when its file was last written."""
        if self._created_ms is None:
            self._created_ms = self._disk.modified_ms(self.path)
        return self._created_ms

    # --- appending ---

    def note_batch(self, last_offset: int, max_timestamp: int, size: int) -> int:
        """Account for a batch appended at the end.

        Returns its position. The bytes are the caller's to write.
        """
        position = self.size
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._index_interval and not self.index_full:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_entry = 0
            self.index_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_entry += size
        self.size = position + size
        return position

    def note_bulk(self, size: int, bulk: BulkAppend) -> int:
        """Account for a bulk append as `note_batch` does for each batch; returns its position."""
        position = self.size
        for last_offset, at, max_timestamp, max_timestamp_offset in bulk.index_entries:
            self._note_timestamp(max_timestamp, max_timestamp_offset)
            self.offset_index.append(last_offset, position + at)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        if bulk.index_entries:
            self.index_full = self.offset_index.is_full or self.time_index.is_full
        self._note_timestamp(bulk.max_timestamp, bulk.max_timestamp_offset)
        self._bytes_since_entry = bulk.bytes_since_entry
        self.size = position + size
        return position

    def _note_timestamp(self, max_timestamp: int, last_offset: int) -> None:
        if max_timestamp > self.max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset

    def bulk_limits(
        self, next_offset: int, leader_epoch: int, config: LogConfig, rules: BatchRules, now_ms: int
    ) -> AppendLimits | None:
        """Return the limits of a bulk append to this segment; None if the next batch must be appended singly."""
        bytes_left = config.segment_bytes - self.size
        if self.size == 0 or self.index_full or self.offset_index.entries_left <= _BULK_ENTRIES_MAX:
            return None
        first = self.first_timestamp
        if first < 0 or bytes_left <= 0:
            return None
        # As a tuple: a call of the class with its ten arguments costs as much as the rest of this method.
        return AppendLimits._make(
            (
                next_offset,
                self.base_offset + INT32_MAX,
                bytes_left,
                leader_epoch,
                max(now_ms - rules.timestamp_before_max_ms, -TIMESTAMP_MAX),
                min(
                    first + config.roll_ms - self.jitter_ms,
                    now_ms + rules.timestamp_after_max_ms,
                    TIMESTAMP_MAX,
                ),
                self._bytes_since_entry,
                self._index_interval,
                rules.max_message_bytes,
                rules.compacted,
            )
        )

    def raw_limits(self, next_offset: int, leader_epoch: int, config: LogConfig) -> RawLimits | None:
        """Return the limits of a raw append to this segment; None if the next batch must be appended singly."""
        first = self.first_timestamp
        if self.size == 0 or self.index_full or first < 0:
            return None
        # An entry is added after more than `_index_interval` bytes, and after one batch at least.
        entries = min(self.offset_index.entries_left, self.time_index.entries_left) - 1
        return RawLimits(
            next_offset,
            self.base_offset + INT32_MAX,
            min(config.segment_bytes - self.size, entries * max(self._index_interval, HEADER_SIZE)),
            leader_epoch,
            first + config.roll_ms - self.jitter_ms,
            self._bytes_since_entry,
            self._index_interval,
        )

    def must_roll(
        self, batch_size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Whether a batch has to be appended to a new segment.

        Size, record time, full index, or offset out of reach.
        """
        if self.size == 0:
            return last_offset - self.base_offset > INT32_MAX
        return (
            self.size + batch_size > config.segment_bytes
            or self.index_full
            or last_offset - self.base_offset > INT32_MAX
            or self._waited_ms(max_timestamp, now_ms) > config.roll_ms - self.jitter_ms
        )

    def _waited_ms(self, max_timestamp: int, now_ms: int) -> int:
        first = self.first_timestamp
        if first >= 0:
            return max_timestamp - first
        return now_ms - self.created_ms

    def seal(self) -> None:
        """The segment gets no more batches; its indexes are complete in memory, and on the disk after
        `sync_indexes`.
        """
        self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset, at_roll=True)

    def sync_indexes(self) -> None:
        """Write the indexes, durably.

        The offset index is written last: after a crash, an entry of it on the disk implies the entries of the others.
        """
        write = self.take_index_write()
        write.run()
        write.finish()

    def take_index_write(self, *, txn_only: bool = False) -> SegmentIndexWrite:
        """The write that `sync_indexes` would do, to be run elsewhere."""
        before = [] if txn_only else [self.time_index.take_write()]
        if self.txn_index.needs_write:
            before.append(self.txn_index.take_write())
        return SegmentIndexWrite(
            self._disk, self._directory, before, [] if txn_only else [self.offset_index.take_write()]
        )

    @property
    def has_stale_entries(self) -> bool:
        """Whether the index files hold what was cut in memory."""
        return any(index.has_stale_entries for index in (self.offset_index, self.time_index, self.txn_index))

    # --- what is in it ---

    @property
    def first_timestamp(self) -> int:
        """The max timestamp of the first batch, by which `segment.ms` is measured; -1 while there is none."""
        if self._first_timestamp == _UNKNOWN:
            if self.written_size == 0:
                return NO_TIMESTAMP
            first = next(walk(self.file, 0, self.written_size), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp; -1 if no batch has one."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with the greatest timestamp."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        self._check_indexes()
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry

    @property
    def largest_timestamp(self) -> int:
        """The time by which retention decides.

        The greatest timestamp, or when the file was written if none has one.
        """
        found = self.max_timestamp
        return found if found >= 0 else self._disk.modified_ms(self.path)

    def find(self, offset: int, end: int) -> BatchPosition | None:
        """The first batch below `end` that holds `offset` or a later one."""
        if not self._indexes_checked:
            self._check_indexes()
        _, position = self.offset_index.lookup(offset)
        return find_offset(self.file, position, end, offset, self._index_interval + _LOOK_AHEAD)

    def find_timestamp(self, timestamp: int, from_offset: int) -> BatchPosition | None:
        """The first batch with a record at or after `timestamp`, looking from `from_offset` on."""
        self._check_indexes()
        _, indexed_offset = self.time_index.lookup(timestamp)
        found = self.find(max(indexed_offset, from_offset), self.written_size)
        if found is None:
            return None
        return find_timestamp(self.file, found.position, self.written_size, timestamp)

    def next_offset(self) -> int:
        """The offset after the last whole batch in the file."""
        return self.end()[0]

    def end(self) -> tuple[int, int]:
        """The offset and the position after the last whole batch, read from the last index entry on."""
        if self.written_size == 0:
            return self.base_offset, 0
        self._check_indexes()
        offset = self.base_offset
        _, position = self.offset_index.lookup(self.base_offset + INT32_MAX)
        for at, header in walk(self.file, position, self.written_size):
            offset = header.last_offset + 1
            position = at + header.size_in_bytes
        return offset, position

    # --- changing what is there ---

    def rebuild_indexes(self) -> None:
        """Rebuild offset and time index from the headers of the log file.

        The txn index needs producer state.
        """
        self._note_from(self.restart_indexes(self.base_offset))

    def _note_from(self, position: int) -> None:
        """Note the batches in the file from `position` on, which `restart_indexes` returned."""
        size = self.size
        for at, header in walk(self.file, position, self.written_size):
            if header.base_offset < self.base_offset or header.last_offset - self.base_offset > INT32_MAX:
                break
            self.size = at
            self.note_batch(header.last_offset, header.max_timestamp, header.size_in_bytes)
        self.size = size

    def restart_indexes(self, offset: int) -> int:
        """Keep what the indexes know below `offset`; returns the position from which batches must be noted
        again.

        That is where the last entry that stays points to; noting its batch again adds no second entry.
        """
        self._indexes_checked = True
        self._bytes_since_entry = 0
        self._first_timestamp = _UNKNOWN
        self.index_full = False
        position = 0
        if offset > self.base_offset:
            try:
                for index in (self.offset_index, self.time_index):
                    index.check()
                    index.truncate_to(offset)
                _, position = self.offset_index.lookup(offset - 1)
            except CorruptIndex:
                position = 0
        if position == 0:
            self._drop_entries()
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry
        return position

    def _drop_entries(self) -> None:
        for index in (self.offset_index, self.time_index):
            try:
                index.truncate_to(self.base_offset)
            except CorruptIndex:
                index.reset()

    def truncate_to(self, offset: int) -> int:
        """Cut all batches that hold `offset` or later ones, durably; returns how many bytes went."""
        found = self.find(offset, self.written_size)
        if found is None:
            return 0
        cut = self.written_size - found.position
        self.file.truncate(found.position)
        self.file.datasync()
        self.written_size = self.size = self.reserved_size = found.position
        self.released_size = max(
            WINDOW_BYTES, min(self.released_size, self.size // WINDOW_BYTES * WINDOW_BYTES)
        )
        self._note_from(self.restart_indexes(offset))
        self.txn_index.truncate_to(offset)
        self.sync_indexes()
        return cut

    def rename(self, suffix: str) -> None:
        """Change the suffix of all its files; durable for the log file, and for the rest once the directory is
        synced.

        The log file is renamed first, durably: without it the others have no meaning, but it needs its index of aborted
        transactions beside it.
        """
        first, *others = [
            kind for kind in log_files.SEGMENT_SUFFIXES if self._disk.exists(self.path_of(kind))
        ]
        old = {kind: self.path_of(kind) for kind in (first, *others)}
        self.suffix = suffix
        self._disk.rename(old[first], self.path_of(first))
        self._disk.sync_dir(self._directory)
        for kind in others:
            self._disk.rename(old[kind], self.path_of(kind))
        self._name_indexes()

    def remove(self) -> None:
        """Close and delete its files; durable once the directory is synced."""
        self.close()
        for kind in log_files.SEGMENT_SUFFIXES:
            path = self.path_of(kind)
            if self._disk.exists(path):
                self._disk.remove(path)

    def move(self, directory: str) -> None:
        """Follow the partition's directory to its new name."""
        self._directory = directory
        self._name_indexes()

    def _name_indexes(self) -> None:
        self.offset_index.path = self.path_of(log_files.OFFSET_INDEX)
        self.time_index.path = self.path_of(log_files.TIME_INDEX)
        self.txn_index.path = self.path_of(log_files.TXN_INDEX)

    def close(self) -> None:
        """Give the descriptor back; the segment can be used again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _check_indexes(self) -> None:
        """Read offset and time index, once; rebuild them if they contradict themselves or the log."""
        if self._indexes_checked:
            return
        self._indexes_checked = True
        try:
            self.offset_index.check()
            self.time_index.check()
            sound = self._last_entries_fit()
        except CorruptIndex:
            sound = False
        if not sound:
            self.rebuild_indexes()
        self.index_full = self.offset_index.is_full or self.time_index.is_full

    def _last_entries_fit(self) -> bool:
        """Whether the last entries name batches that are there: older ones lie before them."""
        if self.offset_index.entry_count:
            offset, position = self.offset_index.lookup(self.offset_index.last_offset)
            _, header = next(walk(self.file, position, self.written_size), (0, None))
            if header is None or header.last_offset != offset:
                return False
        if self.time_index.entry_count:
            timestamp, offset = self.time_index.last_entry
            found = self.find(offset, self.written_size)
            return found is not None and found.base_offset <= offset and found.max_timestamp == timestamp
        return True
