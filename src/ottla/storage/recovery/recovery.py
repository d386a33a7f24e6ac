"""Opening a log that is on the disk: after a clean stop, after a crash, or left by Apache Kafka.

Steps, in order:

1. Leftovers. `.deleted` and `.cleaned` files are removed; an exchange of segments that had reached `.swap` is
   finished; an index without its log file is removed.
2. Segments, by the names of their log files. A missing index is rebuilt from batch headers.
3. After an unclean stop, everything from the recovery point on is checked: batch after batch must have a sound
   header, a right CRC and increasing offsets. The log ends where that fails first: torn, zero-filled or
   garbage tails are cut and later segments removed, newest first; `damage` logs it and keeps what may be valid.
   What is below the recovery point is not read, except the part between the last trusted index entry
   and that point.
4. Leader epochs and producer state: the newest snapshot at or below the recovery point, then the batch
   headers from there on, which also restores the index of aborted transactions. A file of leader epochs that is
   missing, empty or damaged is made again from all batch headers.

When `open_log` returns, all records of the log are durable, and nothing that was removed can appear again:
files are synced and the directory is, before anything can be appended.

A hole between two segments beyond the recovery point means that the end of the first was lost while the
second, which was written later, was not; the log is cut at the hole. Only in a compacted log holes are normal.
"""

from __future__ import annotations

import msgspec
import structlog

from ottla.base.errors import LocalError, StorageFault
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.storage.checkpoints import CorruptCheckpoint
from ottla.storage.commit.write_job import LogLocation
from ottla.storage.index.epoch_cache import LEADER_EPOCH_FILE, EpochCache
from ottla.storage.index.sparse_index import CorruptIndex
from ottla.storage.index.txn_index import AbortedTxn
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.log_parts import LogParts
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_replay import load_producers, replay_stored
from ottla.storage.producers.producer_snapshot import ProducerSnapshots
from ottla.storage.producers.producer_state import ProducerState
from ottla.storage.recovery import damage
from ottla.storage.recovery.batch_scan import walk
from ottla.storage.recovery.leftovers import clear_leftovers
from ottla.storage.recovery.sound_scan import SoundScan, learn_epoch

PRODUCER_EXPIRATION_MS = 24 * 60 * 60 * 1000
_EVERYTHING = 2**63 - 1
_logger = structlog.get_logger(__name__)


class LastKnown(msgspec.Struct, frozen=True):
    """The state of a log in the checkpoints of its log directory."""

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    cut_good: bool = True
    """Whether the log may be cut before sound batches. Otherwise damage before them is refused."""
    synced: bool = False
    """Whether everything in the log's directory was synced before it is opened (`Disk.sync_all`)."""


def open_log(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    config: LogConfig,
    *,
    last: LastKnown,
    rng: Random,
    now_ms: int,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
) -> Log:
    """Open the log in `directory`. OSError becomes StorageFault.

    A new one is made if there is none; that becomes durable with the first flush.
    """
    try:
        found = _Recovery(disk, directory, config, last, now_ms)
        parts = found.run(ProducerState(producer_expiration_ms))
    except OSError as error:
        raise StorageFault(directory.rpartition("/")[0], error) from error
    return Log(disk, directory, topic_partition, topic_id, config=config, parts=parts, rng=rng)


class _Recovery:
    def __init__(self, disk: Disk, directory: str, config: LogConfig, last: LastKnown, now_ms: int) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._clean = last.clean
        self._recovery_point = last.recovery_point
        self._log_start = last.log_start_offset
        self._cut_good = last.cut_good
        self._synced = last.synced
        self._segments: list[Segment] = []
        self._unsynced_indexes: list[Segment] = []
        self._replay_from = _EVERYTHING
        self._epochs: EpochCache

    def run(self, producers: ProducerState) -> LogParts:
        fresh = not self._disk.is_dir(self._directory)
        names = self._create() if fresh else clear_leftovers(self._disk, self._directory, self._config)
        self._load_segments(names)
        self._epochs = self._load_epochs()
        if self._clean and self._segments and self._has_torn_end():
            self._clean = False
            self._recovery_point = self._segments[-1].base_offset
        if not self._clean and self._segments:
            self._verify()
        end_offset = self._segments[-1].next_offset() if self._segments else self._log_start
        if not self._segments or end_offset < self._log_start:
            end_offset = self._log_start
            self._start_anew()
        log_start = max(self._log_start, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(log_start)
        self._epochs.flush(self._recovery_point)
        snapshots = ProducerSnapshots(self._disk, self._directory, names)
        saved = end_offset == log_start or (self._clean and snapshots.latest == end_offset)
        self._restore_producers(producers, snapshots, end_offset)
        # A clean stop leaves an empty log as it is: its names may never have been synced.
        unsynced = fresh or (self._clean and end_offset == log_start)
        return LogParts(
            self._segments,
            self._epochs,
            producers,
            snapshots,
            log_start,
            end_offset,
            self._unsynced_indexes,
            unsynced,
            saved,
        )

    # --- what is there ---

    def _create(self) -> list[str]:
        self._disk.mkdir(self._directory)
        return []

    def _load_segments(self, names: list[str]) -> None:
        for name in names:
            parsed = log_files.parse_segment_file(name)
            if parsed is not None and parsed[1] == log_files.LOG:
                self._segments.append(Segment.load(self._disk, self._directory, parsed[0], self._config))
        present = set(names)
        verified = len(self._segments) if self._clean else self._first_verified()
        for number, segment in enumerate(self._segments):
            stem = f"{segment.base_offset:020d}"
            missing = {stem + log_files.OFFSET_INDEX, stem + log_files.TIME_INDEX} - present
            # `_verify` makes the entries of the segments that it reads.
            if missing and number < verified:
                segment.rebuild_indexes()
                self._unsynced_indexes.append(segment)
            if stem + log_files.TXN_INDEX in present:
                self._check_txn_index(segment)

    def _check_txn_index(self, segment: Segment) -> None:
        try:
            segment.txn_index.check()
        except CorruptIndex:
            segment.txn_index.reset()
            self._replay_from = min(self._replay_from, segment.base_offset)

    def _load_epochs(self) -> EpochCache:
        path = f"{self._directory}/{LEADER_EPOCH_FILE}"
        try:
            epochs = EpochCache(self._disk, path)
        except CorruptCheckpoint:
            self._disk.remove(path)
            epochs = EpochCache(self._disk, path)
        if epochs.latest_epoch is not None:
            return epochs
        # Without epochs a follower would not notice that its records are not those of the leader.
        for segment in self._segments:
            for _, header in walk(segment.file, 0, segment.written_size):
                learn_epoch(epochs, header.partition_leader_epoch, header.base_offset)
        return epochs

    def _start_anew(self) -> None:
        """No segment, or none that reaches the log start: an empty log that begins there."""
        while self._segments:
            self._remove_last()
        made = Segment.create(
            self._disk, self._directory, self._log_start, self._config, now_ms=self._now_ms, jitter_ms=0
        )
        self._segments.append(made)
        self._unsynced_indexes = []

    # --- what can be trusted ---

    def _has_torn_end(self) -> bool:
        """Whether something other than batches stands at the end, although the stop was clean."""
        active = self._segments[-1]
        return active.end()[1] != active.written_size

    def _first_verified(self) -> int:
        """Number of the segment that contains the recovery point."""
        first = 0
        while (
            first + 1 < len(self._segments) and self._segments[first + 1].base_offset <= self._recovery_point
        ):
            first += 1
        return first

    def _verify(self) -> None:
        """Cut the log at the first thing beyond the recovery point that is not sound."""
        first = self._first_verified()
        self._replay_from = min(self._replay_from, self._recovery_point)
        kept = first
        expected = self._segments[first].base_offset
        for segment in self._segments[first:]:
            hole = segment.base_offset > expected and not self._config.compacted
            if segment.base_offset < expected or (hole and kept > first):
                break
            expected, whole = self._verify_segment(segment)
            kept += 1
            if not whole:
                break
        self._cut_segments(self._segments[max(kept, 1) :], expected)
        if not self._synced:
            # The log may have been created just before the process was killed.
            LogLocation(self._disk, self._directory, self._directory.rpartition("/")[0]).sync_new()

    def _verify_segment(self, segment: Segment) -> tuple[int, bool]:
        """Check a segment: the offset after its last sound batch, and whether all of it was sound."""
        size = segment.written_size
        expected, sound = self._scan(segment, segment.restart_indexes(self._recovery_point))
        if sound < size and expected < self._recovery_point:
            # Below the recovery point everything was durable: rather the index is wrong than the log.
            expected, sound = self._scan(segment, segment.restart_indexes(segment.base_offset))
        if sound < size:
            self._report_cut(segment, sound, expected)
            segment.file.truncate(sound)
        if sound < size or not self._synced:
            segment.file.datasync()
        segment.size = segment.written_size = sound
        segment.txn_index.truncate_to(self._recovery_point)
        if segment.has_stale_entries:
            # The log will grow past them with other records.
            segment.sync_indexes()
        if segment not in self._unsynced_indexes:
            self._unsynced_indexes.append(segment)
        return expected, sound == size

    def _scan(self, segment: Segment, position: int) -> tuple[int, int]:
        """Note the sound batches from `position` on; the offset and the position after the last of them."""
        scan = SoundScan(segment, self._config, self._epochs)
        position = scan.run(position)
        return scan.next_offset, position

    def _cut_segments(self, segments: list[Segment], end_offset: int) -> None:
        """Remove the last segments: the log ends before them."""
        for segment in segments:
            if segment.written_size:
                self._report_cut(segment, 0, end_offset)
        for _ in segments:
            self._remove_last()

    def _report_cut(self, segment: Segment, position: int, end_offset: int) -> None:
        """Log what is about to be removed, and keep it if some of it is valid."""
        damage.refuse_old_format(segment, position)
        kept = None
        if damage.has_sound_batches(segment, position):
            if not self._cut_good:
                name = segment.path_of(log_files.LOG)
                raise LocalError(f"{name} is damaged at byte {position}, and sound records follow")
            kept = damage.keep(self._disk, self._directory, segment, position)
        _logger.warning(
            "the end of a log was cut: it is not sound",
            segment=segment.path_of(log_files.LOG),
            end_offset=end_offset,
            cut_bytes=segment.written_size - position,
            kept=kept,
        )

    def _remove_last(self) -> None:
        segment = self._segments.pop()
        if segment in self._unsynced_indexes:
            self._unsynced_indexes.remove(segment)
        segment.remove()
        self._disk.sync_dir(self._directory)

    # --- producers ---

    def _restore_producers(self, state: ProducerState, snapshots: ProducerSnapshots, end_offset: int) -> None:
        for segment in self._segments:
            if segment.base_offset >= self._replay_from:
                segment.txn_index.truncate_to(self._replay_from)
        # A snapshot can be used if all that must be replayed is after it.
        first = self._segments[0].base_offset
        usable = max(first, min(end_offset, self._replay_from))
        load_producers(state, snapshots, self._segments, usable, self._now_ms)
        snapshots.keep_for({segment.base_offset for segment in self._segments})
        for segment in self._segments:
            after = state.end_offset
            found = segment.find(after, segment.written_size) if segment.base_offset < end_offset else None
            if found is None:
                continue
            if segment.base_offset > after:
                state.end_offset = segment.base_offset
            if segment.base_offset == state.end_offset and segment is not self._segments[0]:
                snapshots.take(state, sync=False)
            for position, header in walk(segment.file, found.position, segment.written_size):
                ended = replay_stored(state, header, segment.file, position)
                if ended is not None and ended.aborted and ended.last_offset >= self._replay_from:
                    segment.txn_index.append(
                        AbortedTxn(
                            ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
                        )
                    )
                state.end_offset = header.last_offset + 1
        state.end_offset = end_offset
        self._unsynced_indexes += [
            segment
            for segment in self._segments
            if segment.txn_index.has_unwritten_entries and segment not in self._unsynced_indexes
        ]
        self._unsynced_indexes.sort(key=lambda segment: segment.base_offset)
        sealed = self._segments[:-1]
        self._unsynced_indexes = [segment for segment in self._unsynced_indexes if segment in sealed]
