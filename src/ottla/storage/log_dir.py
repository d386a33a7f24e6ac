"""One log directory: its lock, its identity, its checkpoints, and which logs lie in it.

Files beside the partitions: `.lock`, `meta.properties`, `recovery-point-offset-checkpoint`,
`log-start-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks) and, between a clean stop and
the next start, `.kafka_cleanshutdown`.

Crash policy: a checkpoint is replaced as a whole, and what it promises is made durable before it is written.
The clean-shutdown marker is written last at a stop and removed, durably, before anything changes at a start.
A checkpoint that does not parse is treated as missing: the logs are then recovered from their start.

A directory that fails goes offline until the next start; its logs stay known and answer KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ottla.base.errors import LocalError, StorageFault
from ottla.base.files import Disk, Lock
from ottla.base.ids import ZERO_UUID, TopicPartition, Uuid
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
from ottla.storage.recovery.recovery import LastKnown

_LOCK_FILE = ".lock"
_logger = structlog.get_logger(__name__)


def nobody_to_tell(log: Log, end_offset: int) -> None:
    """`on_cut` of a directory that nobody watches."""


class LogDir:
    def __init__(self, disk: Disk, path: str) -> None:
        """Make the directory if need be and lock it.

        LocalError if another broker has it, OSError if it fails.
        """
        self.path = path.rstrip("/")
        self.disk = disk
        self.fault: BaseException | None = None
        self.logs: dict[TopicPartition, Log] = {}
        self.previous_broker_epoch = -1
        self._written_points: dict[TopicPartition, int] = {}
        self._written_starts: dict[TopicPartition, int] = {}
        self._written_watermarks: dict[TopicPartition, int] = {}
        disk.makedirs(self.path)
        self.on_cut: Callable[[Log, int], None] = nobody_to_tell
        self._lock: Lock | None = disk.lock(self.file(_LOCK_FILE))
        try:
            self.meta: MetaProperties | None = read_meta_properties(disk, self.file(META_PROPERTIES_FILE))
        except CorruptCheckpoint as error:
            self.release()
            raise LocalError(f"nobody knows whose directory this is: {error}") from error

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

        The clean-shutdown marker is consumed.
        """
        marker = self.file(CLEAN_SHUTDOWN_FILE)
        epoch = read_clean_shutdown(self.disk, marker)
        points = self._read(RECOVERY_POINT_FILE)
        starts = self._read(LOG_START_FILE)
        if epoch is not None:
            self.previous_broker_epoch = epoch
            self.disk.remove(marker)
            self.disk.sync_dir(self.path)
        partitions: dict[TopicPartition, LastKnown] = {}
        doomed = []
        for name in self.disk.listdir(self.path):
            if not self.disk.is_dir(self.file(name)):
                continue
            partition = log_files.parse_partition_dir(name)
            if partition is not None:
                partitions[partition] = LastKnown(
                    clean=epoch is not None,
                    recovery_point=points.get(partition, 0),
                    log_start_offset=starts.get(partition, 0),
                )
            elif name.endswith(log_files.DELETE_DIR):
                doomed.append(self.file(name))
        self._written_points, self._written_starts = points, starts
        self._written_watermarks = self._read(HIGH_WATERMARK_FILE)
        return partitions, doomed

    def topic_id(self, partition: TopicPartition) -> Uuid:
        """The topic id in a partition's directory; the zero id if there is none or it was never synced."""
        try:
            found = read_topic_id(self.disk, self.file(f"{partition}/{PARTITION_METADATA_FILE}"))
        except CorruptCheckpoint as error:
            _logger.warning("partition.metadata is unreadable", error=str(error))
            return ZERO_UUID
        return ZERO_UUID if found is None else found

    def add(self, log: Log) -> None:
        log.on_shorten = self._lower
        watermark = self._written_watermarks.get(log.topic_partition, 0)
        log.high_watermark = max(log.log_start_offset, min(watermark, log.log_end_offset))
        self.logs[log.topic_partition] = log

    def close(self, broker_epoch: int, now_ms: int) -> None:
        """A clean stop: everything written out, then the marker. No job may be outstanding."""
        if self.online:
            self._checkpoint_starts()
        for log in self.logs.values():
            log.close(now_ms)
        if self.online:
            self.checkpoint()
            write_clean_shutdown(self.disk, self.file(CLEAN_SHUTDOWN_FILE), broker_epoch)

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def fail(self, cause: BaseException) -> None:
        self.fault = cause
        for log in self.logs.values():
            log.fail()

    # --- checkpoints ---

    def checkpoint(self) -> None:
        """Write the checkpoints that have changed.

        Log starts come first: leader epochs below them are forgotten for good when a log prepares.
        """
        self._checkpoint_starts()
        points = {key: log.prepare_checkpoint() for key, log in self.logs.items()}
        self._written_points = self._write(RECOVERY_POINT_FILE, points, self._written_points)
        watermarks = {key: log.high_watermark for key, log in self.logs.items()}
        self._written_watermarks = self._write(HIGH_WATERMARK_FILE, watermarks, self._written_watermarks)

    def _checkpoint_starts(self) -> None:
        self._written_starts = self._write(LOG_START_FILE, self._starts(), self._written_starts)

    def _starts(self) -> dict[TopicPartition, int]:
        """The log starts that the names of the segments do not tell."""
        return {
            key: log.log_start_offset
            for key, log in self.logs.items()
            if log.log_start_offset > log.segments.first.base_offset
        }

    def _lower(self, log: Log, offset: int) -> None:
        """A log is about to be cut: no checkpoint may promise more than will be left of it."""
        self.on_cut(log, offset)
        key = log.topic_partition
        starts = self._starts()
        if starts.get(key, 0) > offset:
            starts[key] = offset
        self._written_starts = self._write(LOG_START_FILE, starts, self._written_starts)
        if self._written_points.get(key, 0) > offset:
            points = self._written_points | {key: offset}
            self._written_points = self._write(RECOVERY_POINT_FILE, points, self._written_points)

    def _write(
        self, name: str, offsets: dict[TopicPartition, int], written: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if offsets != written:
            write_offsets(self.disk, self.file(name), offsets)
        return offsets

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.disk, self.file(name))
        except CorruptCheckpoint as error:
            _logger.warning("checkpoint is unreadable", error=str(error))
            return {}

    def guard(self, work: Callable[[], None]) -> bool:
        """Do something that touches the disk; False, and the directory is offline, if that fails."""
        if not self.online:
            return False
        try:
            work()
        except (OSError, StorageFault) as error:
            _logger.error("log directory failed", directory=self.path, error=str(error))  # noqa: TRY400
            self.fail(error)
            return False
        return True
