"""A run of the storage layer on a simulated disk, with what must and may be found after a crash at any point
of it.

`CrashRun` does a bit of everything (appends, rolls, truncation, retention, deletion of records and of logs,
exchange of segments, checkpoints, clean stops) and notes, beside the disk's trace, `Promise`s: from that
change on, these batches must be there, those may be, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.records.batch import BatchHeader
from ottla.records.control import ControlType, control_type
from ottla.records.record import iter_records
from ottla.records.validation import ValidBatch
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.segment import Segment
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, batch, create_log, delete_old, marker, remove_due

KEPT = TopicPartition("kept", 0)
DELETED = TopicPartition("deleted", 0)
ROOT = "/data"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=200, retention_bytes=4000, file_delete_delay_ms=0)


class Batch(NamedTuple):
    """A batch as the checks compare it."""

    base_offset: int
    last_offset: int
    crc: int
    leader_epoch: int
    producer_id: int
    last_sequence: int
    kind: str


def batch_of(header: BatchHeader, data: Buffer, base_offset: int, leader_epoch: int) -> Batch:
    kind = "transaction" if header.is_transactional else "data"
    if header.is_control:
        aborts = control_type(next(iter_records(data, header)).key) is ControlType.ABORT
        kind = "abort" if aborts else "commit"
    return Batch(
        base_offset,
        base_offset + header.last_offset_delta,
        header.crc,
        leader_epoch,
        header.producer_id,
        header.last_sequence,
        kind,
    )


class Promise(NamedTuple):
    """What a crash must leave: a first part of `batches` with at least `durable` of them, from `start` on."""

    batches: tuple[Batch, ...]
    durable: int
    earliest_start: int
    latest_start: int
    exists: frozenset[bool]


class Found(NamedTuple):
    """What recovery found of one log."""

    batches: tuple[Batch, ...]
    log_start: int
    first_base: int
    producers: dict[int, tuple[int, int]]
    aborted: list[tuple[int, int]]
    epochs: list[tuple[int, int]]


class Promises:
    """The promises for one log, by the number of changes made when each began to hold."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._promises: list[Promise] = []

    def note(self, changes: int, promise: Promise) -> None:
        self._at.append(changes)
        self._promises.append(promise)

    def after(self, changes: int) -> Promise | None:
        slot = bisect_right(self._at, changes) - 1
        return self._promises[slot] if slot >= 0 else None


class LogRun:
    """One log of the run with its promises."""

    def __init__(self, disk: SimDisk, dirs: LogDirs, log: Log, since: int) -> None:
        """`since` is the number of changes before the log was made."""
        self._disk = disk
        self.dirs = dirs
        self.log = log
        self.promises = Promises()
        self.batches: list[Batch] = []
        self.durable = 0
        self.earliest = self.latest = 0
        self.leader_epoch = 0
        self.open_transaction: int | None = None
        self._sequences: dict[int, int] = {}
        self.promises.note(since, Promise((), 0, 0, 0, frozenset({False, True})))

    def note(self, exists: set[bool] | None = None) -> None:
        promise = Promise(
            tuple(self.batches), self.durable, self.earliest, self.latest, frozenset(exists or {True})
        )
        self.promises.note(len(self._disk.trace), promise)

    def append(self, rng: Random, producer_id: int, *, transactional: bool = False) -> None:
        sequence = self._sequences.get(producer_id, 0)
        count = rng.randint(1, 3)
        made = batch(
            count,
            value=bytes(rng.randrange(40)),
            producer_id=producer_id,
            epoch=0 if producer_id >= 0 else -1,
            sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
        )
        self._append(made)
        self._sequences[producer_id] = sequence + count
        if transactional:
            self.open_transaction = producer_id

    def end_transaction(self, committed: bool) -> None:
        if self.open_transaction is not None:
            made = marker(self.open_transaction, 0, committed=committed)
            self._append(made)
            self.open_transaction = None

    def _append(self, made: ValidBatch) -> None:
        placed = self.log.append(made, self.leader_epoch, NOW_MS)
        self.batches.append(batch_of(made.header, made.data, placed.base_offset, self.leader_epoch))

    def commit(self) -> None:
        self.note()
        job = self.log.take_staged()
        if job is not None:
            job.run()
            self.log.written(job, NOW_MS)
        self.durable = len(self.batches)
        self.log.high_watermark = self.log.committable_offset
        self.note()

    def truncate(self, keep: int) -> None:
        self.durable = min(self.durable, keep)
        self.note()
        offset = self.batches[keep].base_offset if keep < len(self.batches) else self.log.log_end_offset
        self.dirs.truncate(self.log, max(offset, self.log.log_start_offset), NOW_MS).result()
        del self.batches[keep:]
        self.note()
        self.open_transaction = None
        self._sequences = {
            producer: entry.last_sequence + 1
            for producer in (1, 2, 3)
            if (entry := self.log.producers.get(producer)) is not None
        }
        for producer, entry in self.log.producers.items():
            if entry.txn_first_offset >= 0:
                self.open_transaction = producer

    def move_start(self, offset: int) -> None:
        """Only in memory, until the next checkpoint."""
        self.latest = max(self.latest, offset)
        self.note()
        self.log.increment_log_start_offset(offset)

    def retain(self) -> None:
        self.latest = self.log.high_watermark
        self.note()
        delete_old(self.log, NOW_MS)
        self.earliest = self.log.segments.first.base_offset
        self.latest = self.log.log_start_offset
        self.note()
        remove_due(self.log, NOW_MS)

    def exchange(self) -> None:
        """As compaction does, with a segment that has the same batches."""
        if len(self.log.segments) < 3:
            return
        old = self.log.segments[0:2]
        data = b"".join(segment.file.pread(segment.written_size, 0) for segment in old)
        made = Segment.create(
            self._disk,
            self.log.directory,
            old[0].base_offset,
            CONFIG,
            now_ms=NOW_MS,
            jitter_ms=0,
            suffix=log_files.CLEANED,
        )
        made.file.pwritev([data], 0)
        made.size = made.written_size = len(data)
        made.rebuild_indexes()
        for segment in old:
            for aborted in segment.txn_index.entries():
                made.txn_index.append(aborted)
        made.seal()
        made.file.datasync()
        made.sync_indexes()
        self.log.replace_segments(old, made, NOW_MS)
        remove_due(self.log, NOW_MS)

    def checkpointed(self) -> None:
        self.earliest = self.log.log_start_offset
        self.note()


class CrashRun:
    def __init__(self, seed: int, changes: int) -> None:
        self.disk = SimDisk(Random(seed))
        self._rng = Random(seed + 1)
        self._dirs = LogDirs(self.disk, [ROOT], Random(seed + 2), InlineExecutor())
        self._dirs.claim("cluster", 1)
        self._dirs.load(lambda _: CONFIG, NOW_MS).result()
        self.finished: list[LogRun] = []
        self.runs = {KEPT: self._create(KEPT)}
        self.claimed_after = len(self.disk.trace)
        while len(self.disk.trace) < changes:
            self._step(self._rng.random())

    def _create(self, partition: TopicPartition) -> LogRun:
        since = len(self.disk.trace)
        return LogRun(self.disk, self._dirs, create_log(self._dirs, partition, Uuid(int=5), CONFIG), since)

    def _step(self, dice: float) -> None:
        run = self.runs[KEPT]
        rng = self._rng
        if dice < 0.62:
            for _ in range(rng.randint(1, 3)):
                run.append(rng, rng.choice([-1, 1, 2]))
            run.commit()
        elif dice < 0.70:
            run.append(rng, 3, transactional=True)
            run.commit()
        elif dice < 0.76:
            run.end_transaction(rng.random() < 0.4)
            run.commit()
        elif dice < 0.80:
            run.leader_epoch += 1
        elif dice < 0.83 and run.batches:
            first = sum(1 for each in run.batches if each.base_offset < run.log.log_start_offset)
            run.truncate(rng.randint(max(first, len(run.batches) - 12), len(run.batches)))
        elif dice < 0.86:
            run.retain()
        elif dice < 0.88 and run.log.high_watermark > run.log.log_start_offset:
            run.move_start(rng.randint(run.log.log_start_offset, run.log.high_watermark))
        elif dice < 0.90:
            run.exchange()
        elif dice < 0.96:
            self._dirs.checkpoint().result()
            for each in self.runs.values():
                each.checkpointed()
        elif dice < 0.98:
            self._other_log()
        else:
            self._restart()

    def _other_log(self) -> None:
        """A second log is created, written and deleted beside the first."""
        other = self._create(DELETED)
        other.append(self._rng, 1)
        other.commit()
        other.note({False, True})
        self._dirs.delete_logs([DELETED], NOW_MS).result()
        other.note({False})
        self._dirs.remove_deleted(NOW_MS).result()
        self.finished.append(other)

    def _restart(self) -> None:
        run = self.runs[KEPT]
        self._dirs.close(NOW_MS).result()
        self._dirs = LogDirs(self.disk, [ROOT], Random(9), InlineExecutor())
        self._dirs.load(lambda _: CONFIG, NOW_MS).result()
        log = self._dirs.get(KEPT)
        assert log is not None
        run.log, run.dirs = log, self._dirs
        log.high_watermark = log.log_end_offset
        run.earliest = log.log_start_offset
        run.note()


def recover(disk: SimDisk) -> dict[TopicPartition, Found]:
    """Start on a crashed disk and look at what is there."""
    dirs = LogDirs(disk, [ROOT], Random(3), InlineExecutor())
    dirs.load(lambda _: CONFIG, NOW_MS).result()
    found = {log.topic_partition: look(log) for log in dirs.logs()}
    assert all(each.online for each in dirs.dirs), [each.fault for each in dirs.dirs]
    dirs.release()
    return found


def look(log: Log) -> Found:
    batches = []
    first_base = log.segments.first.base_offset
    log.log_start_offset, log_start = first_base, log.log_start_offset
    for header, data in log.batches(first_base, upto=log.log_end_offset):
        batches.append(batch_of(header, data, header.base_offset, header.partition_leader_epoch))
    producers = {
        producer: (entry.last_sequence, entry.last_offset) for producer, entry in log.producers.items()
    }
    aborted = [(e.producer_id, e.last_offset) for e in log.aborted_transactions(0, log.log_end_offset)]
    # An epoch without records, at the end of a log, is forgotten at the next start.
    entries = [entry for entry in log.epochs.entries() if entry.start_offset < log.log_end_offset]
    epochs = [(entry.epoch, entry.start_offset) for entry in entries]
    return Found(tuple(batches), log_start, first_base, producers, aborted, epochs)


def problem(found: Found | None, promise: Promise) -> str | None:
    """What is wrong with what was found, or None."""
    if found is None:
        return None if False in promise.exists or promise.durable == 0 else "the log is gone"
    if True not in promise.exists:
        return "a deleted log has come back"
    return _problem_of_records(found, promise) or _problem_of_state(found, promise)


def _problem_of_records(found: Found, promise: Promise) -> str | None:
    if not promise.earliest_start <= found.log_start <= max(promise.latest_start, promise.earliest_start):
        return f"log start {found.log_start}, promised {promise.earliest_start} to {promise.latest_start}"
    expected = [each for each in promise.batches if each.base_offset >= found.first_base]
    skipped = len(promise.batches) - len(expected)
    if list(found.batches) != expected[: len(found.batches)]:
        return f"other batches than promised: {found.batches} instead of {expected}"
    if len(found.batches) + skipped < promise.durable:
        return f"{len(found.batches)} batches from {found.first_base} on, {promise.durable} were durable"
    return None


def _problem_of_state(found: Found, promise: Promise) -> str | None:
    last = {
        each.producer_id: each for each in found.batches if each.producer_id >= 0 and each.last_sequence >= 0
    }
    for producer, each in last.items():
        if found.producers.get(producer) != (each.last_sequence, each.last_offset):
            return (
                f"producer {producer} is known as {found.producers.get(producer)}, its last batch is {each}"
            )
    aborted = _aborted(promise.batches, found)
    if found.aborted != aborted:
        return f"aborted transactions {found.aborted}, expected {aborted}"
    for each in found.batches:
        known = [epoch for epoch, start in found.epochs if start <= each.base_offset]
        if each.base_offset >= found.log_start and (not known or known[-1] != each.leader_epoch):
            return f"batch {each} lies in epochs {found.epochs}"
    return None


def _aborted(batches: tuple[Batch, ...], found: Found) -> list[tuple[int, int]]:
    """(producer, marker) of the aborted transactions that end in what was found."""
    end = found.batches[-1].last_offset if found.batches else -1
    opened = set()
    aborted = []
    for each in batches:
        if each.kind == "transaction":
            opened.add(each.producer_id)
        elif each.kind in ("abort", "commit"):
            if (
                each.kind == "abort"
                and each.producer_id in opened
                and found.first_base <= each.base_offset <= end
            ):
                aborted.append((each.producer_id, each.base_offset))
            opened.discard(each.producer_id)
    return aborted
