"""The scan of a segment beyond the recovery point: where its sound batches end, and the index entries that they need.

The segment is read in chunks. Consecutive batches of one leader epoch are checked and noted together, as a follower
appends them (`log.raw_append`). The first batch of a segment, one that is longer than a chunk, and those behind the
limits of a segment (size, time, full indexes) are noted singly. Nothing is changed on the disk.
"""

from __future__ import annotations

from typing import Final

from ottla.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_ok, read_header
from ottla.storage.index.epoch_cache import EpochCache
from ottla.storage.index.sparse_index import INT32_MAX
from ottla.storage.log.bulk_append import BulkAppend
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.raw_append import scan_raw
from ottla.storage.log.segment import Segment
from ottla.storage.recovery.batch_scan import walk_verified

CHUNK_BYTES: Final = 1024 * 1024


def learn_epoch(epochs: EpochCache, epoch: int, base_offset: int) -> None:
    """Record the epoch of a batch, unless the checkpoint has it already."""
    latest = epochs.latest_epoch
    if epoch >= 0 and (latest is None or epoch > latest):
        epochs.assign(epoch, base_offset)


class SoundScan:
    """The scan of one segment. `next_offset` is the offset after the last sound batch."""

    def __init__(self, segment: Segment, config: LogConfig, epochs: EpochCache) -> None:
        self.next_offset = segment.base_offset
        self._segment = segment
        self._config = config
        self._epochs = epochs

    def run(self, position: int) -> int:
        """Note the sound batches from `position` on; returns the position after the last of them."""
        file, end = self._segment.file, self._segment.written_size
        while end - position >= HEADER_SIZE:
            chunk = memoryview(file.pread(min(CHUNK_BYTES, end - position), position))
            size = self._note_chunk(chunk, position)
            if not size:
                found = next(walk_verified(file, position, end), None)
                if found is None or not self._note(position, found[1]):
                    break
                size = found[1].size_in_bytes
            position += size
        return position

    def _note_chunk(self, chunk: memoryview, position: int) -> int:
        """Note the sound batches that are whole in a chunk; returns how many bytes they have."""
        segment, at = self._segment, 0
        while len(chunk) - at >= HEADER_SIZE:
            header = read_header(chunk, at)
            segment.size = position + at
            limits = segment.raw_limits(self.next_offset, header.partition_leader_epoch, self._config)
            found = None if limits is None else scan_raw(chunk, at, limits)
            if found is not None:
                end, next_offset, timestamp, timestamp_offset, entries, since_entry, _ = found
                learn_epoch(self._epochs, header.partition_leader_epoch, header.base_offset)
                run = BulkAppend(
                    chunk[at:end], next_offset, timestamp, timestamp_offset, entries, since_entry
                )
                segment.note_bulk(end - at, run)
                self.next_offset, at = next_offset, end
            elif _is_sound(chunk, at, header) and self._note(position + at, header):
                at += header.size_in_bytes
            else:
                break
        return at

    def _note(self, position: int, header: BatchHeader) -> bool:
        """Note one batch; False if its offsets do not follow those before it."""
        segment = self._segment
        if header.base_offset < self.next_offset or header.last_offset - segment.base_offset > INT32_MAX:
            return False
        segment.size = position
        segment.note_batch(header.last_offset, header.max_timestamp, header.size_in_bytes)
        learn_epoch(self._epochs, header.partition_leader_epoch, header.base_offset)
        self.next_offset = header.last_offset + 1
        return True


def _is_sound(chunk: memoryview, at: int, header: BatchHeader) -> bool:
    """Whether a batch is whole in a chunk and has a correct CRC."""
    size = header.size_in_bytes
    if header.magic != MAGIC or header.last_offset_delta < 0 or not HEADER_SIZE <= size <= len(chunk) - at:
        return False
    return crc_ok(chunk[at : at + size])
