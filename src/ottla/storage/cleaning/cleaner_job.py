"""One cleaning of one log, done in small steps.

First the dirty part is read once, and the offset map records the last offset of each key. This ends early if
the map is full; the next cleaning continues from there. Then the log is copied from its start to the end of the
map, group of segments by group of segments, into new `.cleaned` segments without what `cleaner_filter`
drops. Each finished group is returned, to be exchanged for the old segments.

A job opens sealed segments itself and writes files that nothing else uses, so that its steps may run in a worker
thread beside the log. Only the exchange of the segments (`Segments.replace`) changes what readers see; it belongs to
the log's task. If the log has lost one of the segments meanwhile (retention, truncation, deletion), the job ends
without effect.

Every batch read is checked against its CRC: nothing is derived from a damaged segment, and nothing in it is
dropped.

Crash policy: `.cleaned` files are synced before they are returned. After a crash, the rest of them, or of the
exchange, is handled by `leftovers`. It relies on one rule: a new segment ends exactly where the last
of those it replaces ended, so that offsets alone determine which ones these are.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer, Disk
from ottla.records.batch import HEADER_SIZE, MAGIC, BatchHeader, CorruptBatch, crc_ok, read_header
from ottla.records.record import records_section
from ottla.storage.cleaning.cleaner_filter import BatchFilter, CleanedTransactions, LastBatch, scan_records
from ottla.storage.cleaning.cleaner_map import OffsetMap
from ottla.storage.cleaning.compaction import Dirt, SegmentFacts, group_segments
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log import log_files
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment

_CHUNK_MIN: Final = 64 * 1024


class CleaningAborted(OttlaError):
    """The log changed under the cleaning, which was given up without a trace."""


class Source(NamedTuple):
    """A sealed segment to be cleaned, as it was when the job began."""

    segment: Segment
    base_offset: int
    size: int
    path: str


class Swap(NamedTuple):
    """A new segment, complete and synced, and those that it replaces."""

    cleaned: Segment
    sources: Sequence[Source]

    def fits(self, segments: Iterable[Segment]) -> bool:
        """Whether a log with these segments still has the old ones, sealed and as long as they were read."""
        *row, _ = segments
        sealed = {segment.base_offset: segment for segment in row}
        return all(
            sealed.get(source.base_offset) is source.segment and source.segment.written_size == source.size
            for source in self.sources
        )


class Step(NamedTuple):
    """What a step of the job did: bytes read and written, and a swap that is now due."""

    io_bytes: int
    swap: Swap | None = None


class CleanerJob:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        dirt: Dirt,
        segments: Sequence[Segment],
        *,
        aborted: Iterable[AbortedTxn],
        producers: Mapping[int, LastBatch],
        offsets: OffsetMap,
        io_buffer_bytes: int,
        now_ms: int,
    ) -> None:
        """`segments` are the log's, from the first to the last below the first uncleanable offset."""
        self.end_offset = dirt.first_dirty_offset  # below it the log is clean once the job is done
        self._disk = disk
        self._directory = directory
        self._config = config
        self._dirt = dirt
        self._sources = [Source(s, s.base_offset, s.written_size, s.path) for s in segments]
        self._aborted = list(aborted)
        self._producers = producers
        self._offsets = offsets
        self._chunk = max(io_buffer_bytes, _CHUNK_MIN)
        self._now_ms = now_ms
        self._output: Segment | None = None

    def steps(self) -> Generator[Step, None, None]:
        """Do the work; a swap that a step returns must be complete before the next step is started."""
        try:
            yield from self._build_map()
            self.end_offset = self._offsets.latest_offset + 1
            sources = [source for source in self._sources if source.base_offset < self.end_offset]
            filter_ = BatchFilter(
                self._offsets,
                CleanedTransactions(self._aborted),
                self._producers,
                delete_retention_ms=self._config.delete_retention_ms,
                now_ms=self._now_ms,
            )
            for group in self._groups(sources):
                yield from self._clean_group([sources[number] for number in group], filter_)
        except FileNotFoundError as error:
            raise CleaningAborted(f"a segment of {self._directory} went away: {error}") from None
        finally:
            self._discard()

    def _groups(self, sources: Sequence[Source]) -> list[range]:
        facts = [
            SegmentFacts(
                source.base_offset,
                source.size,
                -1,
                offset_index_bytes=self._file_size(source.segment.path_of(log_files.OFFSET_INDEX)),
                time_index_bytes=self._file_size(source.segment.path_of(log_files.TIME_INDEX)),
            )
            for source in sources
        ]
        config = self._config
        end = self._dirt.first_uncleanable_offset
        return group_segments(facts, config.segment_bytes, config.segment_index_bytes, end)

    def _file_size(self, path: str) -> int:
        return self._disk.file_size(path) if self._disk.exists(path) else 0

    def _build_map(self) -> Iterator[Step]:
        """Learn the last offset of each key in the dirty part, as far as the map has room."""
        start, end = self._dirt.first_dirty_offset, self._dirt.first_uncleanable_offset
        transactions = CleanedTransactions(self._aborted)
        self._offsets.latest_offset = start - 1
        for number, source in enumerate(self._sources):
            last = number + 1 == len(self._sources)
            next_base = end if last else self._sources[number + 1].base_offset
            if next_base <= start:
                continue
            for chunk in self._chunks(source):
                for batch, header in chunk.batches:
                    if not self._learn(batch, header, transactions, start):
                        yield Step(chunk.size)
                        return
                yield Step(chunk.size)
            # Offsets may be missing at the end of a segment that was cleaned before.
            self._offsets.latest_offset = max(self._offsets.latest_offset, next_base - 1)

    def _learn(
        self, batch: Buffer, header: BatchHeader, transactions: CleanedTransactions, start: int
    ) -> bool:
        """Put a batch's keys into the map; False if they did not all fit."""
        if header.is_control:
            transactions.marker_read(batch, header)
        elif not transactions.batch_read(header) and header.last_offset >= start:
            for record in scan_records(records_section(batch, header), header):
                offset = header.base_offset + record.offset_delta
                if record.key is not None and offset >= start and not self._offsets.put(record.key, offset):
                    # Everything before this record is known: even the smallest map gets on.
                    self._offsets.latest_offset = offset - 1
                    return False
        self._offsets.latest_offset = max(self._offsets.latest_offset, header.last_offset)
        return True

    def _clean_group(self, group: Sequence[Source], filter_: BatchFilter) -> Iterator[Step]:
        cleaned = Segment.create(
            self._disk,
            self._directory,
            group[0].base_offset,
            self._config,
            now_ms=self._now_ms,
            jitter_ms=0,
            suffix=log_files.CLEANED,
        )
        self._output = cleaned
        last_source = max((n for n, source in enumerate(group) if source.size), default=-1)
        for number, source in enumerate(group):
            for chunk in self._chunks(source):
                kept = []
                for index, (batch, header) in enumerate(chunk.batches):
                    ends_group = number == last_source and chunk.is_last and index + 1 == len(chunk.batches)
                    left, ended = filter_.clean(batch, header, keep_header=ends_group)
                    if left is not None:
                        kept.append(left)
                        self._note(cleaned, left)
                    if ended is not None:
                        cleaned.txn_index.append(ended)
                size = sum(map(len, kept))
                if kept:
                    cleaned.file.pwritev(kept, cleaned.written_size)
                    cleaned.written_size += size
                yield Step(chunk.size + size)
        cleaned.seal()
        cleaned.file.datasync()
        cleaned.sync_indexes()
        self._disk.sync_dir(self._directory)
        cleaned.close()
        yield Step(0, Swap(cleaned, group))
        self._output = None

    def _note(self, cleaned: Segment, batch: Buffer) -> None:
        if cleaned.index_full:
            raise CleaningAborted(f"the index of {cleaned.path} is full")
        header = read_header(batch)
        cleaned.note_batch(header.last_offset, header.max_timestamp, header.size_in_bytes)

    def _chunks(self, source: Source) -> Iterator[_Chunk]:
        """The batches of a segment, checked, about a chunk's worth of bytes at a time."""
        file = self._disk.open(source.path)
        try:
            position = 0
            while position < source.size:
                data = memoryview(file.pread(min(self._chunk, source.size - position), position))
                wanted = _first_batch_size(data, source, position)
                if wanted > len(data):
                    data = memoryview(file.pread(wanted, position))
                batches = _split(data, source, position)
                used = sum(len(batch) for batch, _ in batches)
                position += used
                yield _Chunk(used, batches, is_last=position == source.size)
        finally:
            file.close()

    def _discard(self) -> None:
        """Remove the new segment unless it was swapped in."""
        output, self._output = self._output, None
        if output is not None and output.suffix == log_files.CLEANED:
            output.remove()


class _Chunk(NamedTuple):
    size: int
    batches: list[tuple[memoryview, BatchHeader]]
    is_last: bool


def _first_batch_size(data: memoryview, source: Source, position: int) -> int:
    header = read_header(data)
    size = header.size_in_bytes
    if not HEADER_SIZE <= size <= source.size - position or header.magic != MAGIC:
        raise CorruptBatch(f"{source.path}: no batch at {position}")
    return size


def _split(data: memoryview, source: Source, position: int) -> list[tuple[memoryview, BatchHeader]]:
    """The whole batches at the start of `data`; at least one."""
    batches = []
    at = 0
    while len(data) - at >= HEADER_SIZE:
        header = read_header(data, at)
        size = _first_batch_size(data[at:], source, position + at)
        if size > len(data) - at:
            break
        batch = data[at : at + size]
        if not crc_ok(batch):
            raise CorruptBatch(f"{source.path}: the batch at {position + at} fails its checksum")
        batches.append((batch, header))
        at += size
    return batches
