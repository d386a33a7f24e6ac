"""Short ways to make logs and batches for tests of the storage layer."""

from __future__ import annotations

from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.records.batch import BatchHeader, TimestampType, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.validation import ValidBatch
from ottla.storage.log.appended import Appended
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs, NewLog
from ottla.storage.recovery.recovery import LastKnown, open_log

PARTITION = TopicPartition("topic", 0)
TOPIC_ID = Uuid(int=77)
NOW_MS = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    value: bytes = b"v",
    time_ms: int = NOW_MS,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    step_ms: int = 0,
) -> ValidBatch:
    """A validated batch of `count` records with the same value."""
    records = [NewRecord(None, value, timestamp=time_ms + number * step_ms) for number in range(count)]
    data = build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        timestamp_type=timestamp_type,
        log_append_time=time_ms,
    )
    return valid(data)


def marker(producer_id: int, epoch: int, *, committed: bool, coordinator_epoch: int = 0) -> ValidBatch:
    return valid(
        build_end_txn_batch(
            EndTxnMarker(committed, coordinator_epoch),
            timestamp=NOW_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    )


def valid(data: bytes) -> ValidBatch:
    return ValidBatch(memoryview(bytearray(data)), read_header(data))


def open_at(
    disk: Disk, directory: str, config: LogConfig | None = None, last: LastKnown | None = None
) -> Log:
    """The log in a directory, whose parent is made if need be."""
    disk.makedirs(directory.rpartition("/")[0])
    return open_log(
        disk,
        directory,
        PARTITION,
        TOPIC_ID,
        config or LogConfig(),
        last=last or LastKnown(),
        rng=Random(1),
        now_ms=NOW_MS,
    )


def append(log: Log, *batches: ValidBatch, leader_epoch: int = 0, flush: bool = True) -> list[Appended]:
    """Append batches, and write and sync them."""
    placed = [log.append(each, leader_epoch, NOW_MS) for each in batches]
    if flush:
        log.flush(NOW_MS)
    return placed


def headers(log: Log, offset: int | None = None, upto: int | None = None) -> list[BatchHeader]:
    """The headers of everything that can be read."""
    start = log.log_start_offset if offset is None else offset
    end = log.log_end_offset if upto is None else upto
    return [header for header, _ in log.batches(start, upto=end)]


def offsets(log: Log) -> list[tuple[int, int]]:
    """(first, last) offset of every batch."""
    return [(header.base_offset, header.last_offset) for header in headers(log)]


# The jobs of a log, run in the calling thread.


def truncate(log: Log, offset: int, now_ms: int) -> bool:
    """Write what is staged, then remove the records at and above `offset`; False if there are none."""
    log.flush(now_ms)
    job = log.take_truncation(offset, now_ms)
    if job is None:
        return False
    log.perform(job)
    return True


def restart(log: Log, offset: int, now_ms: int) -> None:
    """Remove all records; the log continues at `offset`."""
    log.flush(now_ms)
    log.perform(log.take_restart(offset, now_ms))


def delete_old(log: Log, now_ms: int) -> int:
    """Delete the segments that retention does not keep; returns how many."""
    job = log.take_deletion(now_ms)
    if job is None:
        return 0
    log.perform(job)
    return len(job.segments)


def remove_due(log: Log, now_ms: int) -> int:
    """Remove the files of deleted segments whose delay is over; returns how many segments."""
    due = log.segments.take_due(now_ms)
    for segment in due:
        segment.remove()
    return len(due)


def checkpoint(log: Log) -> int:
    """Make durable what recovery relies on below the recovery point; returns that offset."""
    offset = log.flushed_offset
    job = log.take_checkpoint()
    if job is not None:
        log.perform(job)
    return offset


def create_log(dirs: LogDirs, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
    """Create a log in directories whose executor runs work at once; raises why it could not be created."""
    results: list[Log | Exception] = []
    new = NewLog(partition, topic_id, config)
    dirs.create_logs([new], NOW_MS, lambda _, result: results.append(result)).result()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]
