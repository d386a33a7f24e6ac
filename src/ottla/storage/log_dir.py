"""One log directory: its lock, its identity, its checkpoints, and which logs lie in it.

Files beside the partitions: `.lock`, `meta.properties`, `recovery-point-offset-checkpoint`,
`log-start-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks) and, between a clean stop and
the next start, `.kafka_cleanshutdown`.

Crash policy: a checkpoint is replaced as a whole, and the state that it describes is durable before it is written.
Before a log is created, the checkpoints say nothing about its name: they may contain a deleted log of the same name.
The clean-shutdown marker is written last at a stop and removed, durably, before anything changes at a start.
A checkpoint that does not parse is treated as missing: the logs are then recovered from their start.

A directory that fails goes offline until the next start; its logs remain known and raise KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Final

import structlog

from ottla.base.errors import LocalError, StorageFault
from ottla.base.executor import Executor
from ottla.base.files import Disk, Lock
from ottla.base.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.base.promise import Promise
from ottla.storage.bulk import Queue, in_order, run_bulk, run_one
from ottla.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpoint,
    MetaProperties,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
)
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_jobs import CheckpointJob, CloseJob, TruncationJob
from ottla.storage.recovery.recovery import LastKnown

OnError = Callable[[Exception], None]

LOCK_FILE: Final = ".lock"
_SYNCED_ONE_BY_ONE_MAX: Final = 32
_logger = structlog.get_logger(__name__)


def nodes_below(disk: Disk, path: str, depth: int = 2) -> list[str]:
    """The directories below `path`, at most `depth` levels, that have the identity of a node.

    Directories that cannot be read, such as `lost+found`, are skipped.
    """
    if depth == 0:
        return []
    try:
        below = [each for name in disk.listdir(path) if disk.is_dir(each := f"{path}/{name}")]
    except OSError:
        return []
    found = [each for each in below if disk.exists(f"{each}/{META_PROPERTIES_FILE}")]
    return found + [one for each in below for one in nodes_below(disk, each, depth - 1)]


class LogDir:
    def __init__(self, disk: Disk, path: str, executor: Executor, on_error: OnError) -> None:
        """Create the directory if it is missing and lock it.

        `on_error` gets every error of the disk, for the owner to call `fail`. LocalError if another broker has the
        directory, OSError if it cannot be used.
        """
        self._executor = executor
        self._on_error = on_error
        self.path = path.rstrip("/")
        self.disk = disk
        self.fault: BaseException | None = None
        self.logs: dict[TopicPartition, Log] = {}
        self.creating = 0
        """Logs that are being created here."""
        self.arriving: dict[TopicPartition, int] = {}
        """The log starts of copies that are about to replace logs in other directories (`storage.log_move`)."""
        self.unfinished: list[tuple[TopicPartition, str]] = []
        """Copies that the last stop interrupted, with their directories."""
        self.previous_broker_epoch = -1
        """That of the process that stopped cleanly; -1 if there is none."""
        self._written_points: dict[TopicPartition, int] = {}
        self._written_starts: dict[TopicPartition, int] = {}
        self._written_watermarks: dict[TopicPartition, int] = {}
        self._removed: set[TopicPartition] = set()
        """Logs that were removed since the last checkpoint, which may contain them if it is being written."""
        self._checkpoints = Queue()
        disk.makedirs(self.path)
        self._lock: Lock | None = disk.lock(self.file(LOCK_FILE))
        try:
            self.meta: MetaProperties | None = read_meta_properties(disk, self.file(META_PROPERTIES_FILE))
            stopped = read_clean_shutdown(disk, self.file(CLEAN_SHUTDOWN_FILE))
            self.previous_broker_epoch = -1 if stopped is None else stopped
        except CorruptCheckpoint as error:
            self.release()
            raise LocalError(
                f"the owner of the log directory cannot be determined: {error}; restore the file"
            ) from error

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def online(self) -> bool:
        return self.fault is None

    @property
    def directory_id(self) -> Uuid:
        found = None if self.meta is None else self.meta.directory_id
        return ZERO_UUID if found is None else found

    def claim(self, cluster_id: str, node_id: int, directory_id: Uuid, comment: str) -> None:
        """Give a new directory its identity; LocalError if it belongs to another cluster or node."""
        meta = self.meta
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise LocalError(f"{self.path} belongs to cluster {meta.cluster_id}, this one is {cluster_id}")
        if meta is not None and meta.node_id not in (None, node_id):
            raise LocalError(f"{self.path} belongs to node {meta.node_id}, this one is {node_id}")
        if meta is None or None in meta:
            kept = None if meta is None else meta.directory_id
            self.meta = MetaProperties(cluster_id, node_id, kept or directory_id)
            write_meta_properties(self.disk, self.file(META_PROPERTIES_FILE), self.meta, comment)

    # --- starting and stopping ---

    def find_partitions(self) -> tuple[dict[TopicPartition, LastKnown], list[str]]:
        """The partitions with what is known about each, and the directories that were being deleted.

        The clean-shutdown marker is consumed. After an unclean stop everything that is in the page cache alone is
        made durable first, so that no log has to sync what it keeps. Runs in a worker thread.
        """
        marker = self.file(CLEAN_SHUTDOWN_FILE)
        epoch = read_clean_shutdown(self.disk, marker)
        points = self._read(RECOVERY_POINT_FILE)
        starts = self._read(LOG_START_FILE)
        if epoch is not None:
            self.disk.remove(marker)
            self.disk.sync_dir(self.path)
        else:
            self.disk.sync_all(self.path)
        partitions: dict[TopicPartition, LastKnown] = {}
        deleted = []
        for name in self.disk.listdir(self.path):
            if not self.disk.is_dir(self.file(name)):
                continue
            partition = log_files.parse_partition_dir(name)
            if partition is not None:
                partitions[partition] = LastKnown(
                    clean=epoch is not None,
                    synced=True,
                    recovery_point=points.get(partition, 0),
                    log_start_offset=starts.get(partition, 0),
                )
            elif name.endswith(log_files.DELETE_DIR):
                deleted.append(self.file(name))
            elif (copied := log_files.parse_future_dir(name)) is not None:
                self.unfinished.append((copied, self.file(name)))
        self._written_points, self._written_starts = points, starts
        self._written_watermarks = self._read(HIGH_WATERMARK_FILE)
        return partitions, deleted

    def topic_id(self, partition: TopicPartition) -> Uuid:
        """The topic id in a partition's directory; the zero id if there is none or it was never synced."""
        try:
            found = read_topic_id(self.disk, self.file(f"{partition}/{PARTITION_METADATA_FILE}"))
        except CorruptCheckpoint as error:
            _logger.warning("partition.metadata is unreadable", error=str(error))
            return ZERO_UUID
        return ZERO_UUID if found is None else found

    def add(self, log: Log) -> None:
        watermark = self._written_watermarks.get(log.topic_partition, 0)
        log.high_watermark = max(log.log_start_offset, min(watermark, log.log_end_offset))
        self.logs[log.topic_partition] = log

    def remove(self, log: Log) -> None:
        """The log is not here any more."""
        del self.logs[log.topic_partition]
        self._removed.add(log.topic_partition)

    def close(self, broker_epoch: int, now_ms: int) -> Promise[None]:
        """A clean stop: write everything out, then the marker. No job of a log may be outstanding."""
        jobs: list[CloseJob] = []
        step = self._in_worker
        return in_order(
            [
                lambda: step(partial(self._write_starts, self._starts())),
                lambda: self._take_closes(now_ms, jobs),
                lambda: self._run_closes(jobs),
                self._close_files,
                self.checkpoint,
                lambda: step(
                    lambda: write_clean_shutdown(self.disk, self.file(CLEAN_SHUTDOWN_FILE), broker_epoch)
                ),
            ]
        )

    def _take_closes(self, now_ms: int, jobs: list[CloseJob]) -> Promise[None]:
        def take(log: Log, _: object) -> None:
            try:
                job = log.take_close(now_ms)
            except StorageFault as fault:
                self._on_error(fault)
            else:
                if job is not None:
                    jobs.append(job)

        return run_bulk(self._executor, list(self.logs.values()), _nothing, take)

    def _run_closes(self, jobs: list[CloseJob]) -> Promise[None]:
        """Few logs are synced file by file; for many one sync of the file system replaces thousands."""
        each = partial(self._each_in_worker, jobs)
        if len(jobs) <= _SYNCED_ONE_BY_ONE_MAX:
            return each(CloseJob.run)
        sync = partial(self._in_worker, lambda: self.disk.sync_all(self.path))
        return in_order([lambda: each(CloseJob.write), sync, lambda: each(CloseJob.exchange), sync])

    def _close_files(self) -> Promise[None]:
        return run_bulk(self._executor, list(self.logs.values()), lambda log: log.segments.close(), _ignore)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, cause: BaseException) -> None:
        self.fault = cause
        for log in self.logs.values():
            log.fail()

    # --- checkpoints ---

    def checkpoint(self) -> Promise[None]:
        """Write the checkpoints that have changed, one after the other, in a worker.

        Log starts are first: leader epochs below them are dropped durably by the checkpoint of a log.
        """
        points: dict[TopicPartition, int] = {}
        step = self._in_worker
        return self._checkpoints.add(
            lambda: in_order(
                [
                    self._start_checkpoint,
                    lambda: step(partial(self._write_starts, self._starts())),
                    lambda: self._prepare_points(points),
                    lambda: step(partial(self._write_points, self._still_here(points))),
                    lambda: step(partial(self._write_watermarks, self._watermarks())),
                ]
            )
        )

    def _start_checkpoint(self) -> Promise[None]:
        self._removed.clear()
        return Promise.kept(None)

    def _prepare_points(self, points: dict[TopicPartition, int]) -> Promise[None]:
        """Make durable, for each log, what its recovery point promises."""

        def take() -> Iterator[tuple[Log, CheckpointJob | None]]:
            for key, log in list(self.logs.items()):
                if log.offline or log.job_beside_writes:
                    points[key] = self._written_points.get(key, 0)
                    continue
                points[key] = log.flushed_offset
                try:
                    job = None if log.closed else log.take_checkpoint()
                except StorageFault as fault:
                    self._on_error(fault)
                    return
                yield log, job

        def done(item: tuple[Log, CheckpointJob | None], result: Exception | None) -> None:
            log, job = item
            if result is not None and not log.closed:
                self._on_error(result)
            elif job is not None:
                log.finished(job)

        return run_bulk(self._executor, take(), _run_job, done)

    def truncate(self, log: Log, job: TruncationJob, offset: int) -> Promise[None]:
        """Run a truncation of a log; before, lower the checkpoints that promise more than will be left of it."""

        def done(result: Exception | None) -> None:
            if result is None:
                log.finished(job)
            elif not log.closed:
                self._on_error(result)

        step = self._in_worker
        return self._checkpoints.add(
            lambda: in_order(
                [
                    lambda: step(partial(self._lower, log.topic_partition, self._starts(), offset)),
                    lambda: run_one(self._executor, job.run, done) if self.online else Promise.kept(None),
                ]
            )
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> Promise[None]:
        """Remove what the checkpoints say about partitions that have no log here, before logs are created."""
        written = (self._written_starts, self._written_points, self._written_watermarks, self._removed)
        gone = {
            key
            for key in partitions
            if key not in self.logs and key not in self.arriving and any(key in each for each in written)
        }
        if not gone:
            return Promise.kept(None)
        return self._checkpoints.add(lambda: self._in_worker(partial(self._remove, gone)))

    def _remove(self, gone: Collection[TopicPartition]) -> None:
        self._write_starts(_without(self._written_starts, gone))
        self._write_points(_without(self._written_points, gone))
        self._write_watermarks(_without(self._written_watermarks, gone))

    def _lower(self, key: TopicPartition, starts: dict[TopicPartition, int], offset: int) -> None:
        if starts.get(key, 0) > offset:
            starts[key] = offset
        self._write_starts(starts)
        if self._written_points.get(key, 0) > offset:
            self._write_points(self._written_points | {key: offset})

    def _starts(self) -> dict[TopicPartition, int]:
        """The log starts that are not the base offset of a segment."""
        starts = {
            key: log.log_start_offset
            for key, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }
        return starts | self.arriving if self.arriving else starts

    def _still_here(self, points: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {key: point for key, point in points.items() if key in self.logs}

    def _watermarks(self) -> dict[TopicPartition, int]:
        return {key: log.high_watermark for key, log in self.logs.items()}

    # In a worker; one of them at a time.

    def _write_starts(self, offsets: dict[TopicPartition, int]) -> None:
        self._written_starts = self._write(LOG_START_FILE, offsets, self._written_starts)

    def _write_points(self, offsets: dict[TopicPartition, int]) -> None:
        self._written_points = self._write(RECOVERY_POINT_FILE, offsets, self._written_points)

    def _write_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        self._written_watermarks = self._write(HIGH_WATERMARK_FILE, offsets, self._written_watermarks)

    def _write(
        self, name: str, offsets: dict[TopicPartition, int], written: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if offsets != written:
            write_offsets(self.disk, self.file(name), offsets)
        return offsets

    # --- in the executor ---

    def _in_worker(self, work: Callable[[], None]) -> Promise[None]:
        """Run a step unless the directory has failed; report the error if it fails."""
        if not self.online:
            return Promise.kept(None)
        return run_one(self._executor, work, self._check)

    def _check(self, result: Exception | None) -> None:
        if result is not None:
            self._on_error(result)

    def _each_in_worker(self, jobs: list[CloseJob], work: Callable[[CloseJob], None]) -> Promise[None]:
        if not self.online:
            return Promise.kept(None)
        return run_bulk(self._executor, jobs, work, lambda _, result: self._check(result))

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.disk, self.file(name))
        except CorruptCheckpoint as error:
            _logger.warning("checkpoint is unreadable", error=str(error))
            return {}


def _without(
    offsets: dict[TopicPartition, int], gone: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in offsets.items() if key not in gone}


def _nothing(_: object) -> None:
    """The work of a pass that only divides what is done on the loop."""


def _ignore(_: object, result: object) -> None:
    """The result of closing files that were only read since their last sync."""


def _run_job(item: tuple[Log, CheckpointJob | None]) -> None:
    if item[1] is not None:
        item[1].run()
