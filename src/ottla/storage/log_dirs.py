"""All logs of a broker, in one or more log directories.

Starting: `LogDirs` locks the directories and reads who they belong to; `claim` gives new ones an identity;
`load` opens the logs, with recovery where the last stop was not clean. `close` is the clean stop.

A new log goes to the directory with the fewest. A deleted one has its directory renamed at once, and removed
when `file.delete.delay.ms` have passed.

What must happen from time to time is offered as plain functions that take the time (`enforce_retention`,
`flush_due`, `checkpoint`, `remove_deleted`, `expire_producers`); whoever owns the loop calls them.

A directory that fails goes offline, `on_offline` is told, and the rest goes on. With none left nothing can be
done here: the node decides.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

import msgspec
import structlog

from ottla.base.errors import ApiError, ErrorCode, LocalError, StorageFault
from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC, ZERO_UUID, TopicPartition, Uuid
from ottla.base.rng import Random, random_uuid
from ottla.storage.checkpoints import PARTITION_METADATA_FILE, topic_id_content
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.recovery.recovery import PRODUCER_EXPIRATION_MS, LastKnown, open_log

_logger = structlog.get_logger(__name__)
_PARTITIONS_REMOVED_MAX: Final = 10
"""In one call of `remove_deleted`; each has some eight files."""


class LogWatcher(Protocol):
    """Somebody who remembers something about logs (`storage.cleaning.cleaner`)."""

    def truncated(self, log: Log, offset: int) -> None:
        """The log is being cut at `offset`."""
        ...

    def deleted(self, log: Log) -> None:
        """The log is going."""
        ...


class _Doomed(msgspec.Struct):
    """A partition's directory on its way out."""

    remove_at_ms: int
    path: str
    log_dir: LogDir
    log: Log | None


class LogDirs:
    def __init__(
        self,
        disk: Disk,
        paths: Iterable[str],
        rng: Random,
        *,
        on_offline: Callable[[LogDir], None] | None = None,
    ) -> None:
        """Lock the directories. LocalError if another broker has one of them, or if none can be used."""
        self._disk = disk
        self._rng = rng
        self._producer_expiration_ms = PRODUCER_EXPIRATION_MS
        self._on_offline = on_offline
        self._watcher: LogWatcher | None = None
        self._doomed: list[_Doomed] = []
        self._renamed_in: list[LogDir] = []
        self.dirs: list[LogDir] = []
        self.unusable: dict[str, OSError] = {}
        try:
            for path in paths:
                self._open_dir(path)
        except BaseException:
            self.release()
            raise
        if not self.dirs:
            raise LocalError(f"no log directory can be used: {self.unusable}")

    def _open_dir(self, path: str) -> None:
        try:
            self.dirs.append(LogDir(self._disk, path))
        except OSError as error:
            _logger.error("log directory cannot be used", directory=path, error=str(error))  # noqa: TRY400
            self.unusable[path] = error

    def watch(self, watcher: LogWatcher) -> None:
        """Tell `watcher` about every log that is cut or deleted from now on."""
        self._watcher = watcher
        for log_dir in self.dirs:
            log_dir.on_cut = watcher.truncated

    @property
    def cluster_id(self) -> str | None:
        """What the directories say; None if all are new."""
        known = {meta.cluster_id for each in self.dirs if (meta := each.meta) and meta.cluster_id}
        if len(known) > 1:
            raise LocalError(f"the log directories belong to different clusters: {sorted(known)}")
        return known.pop() if known else None

    def claim(self, cluster_id: str, node_id: int, comment: str = "") -> None:
        """Give new directories an identity; LocalError if one belongs to another cluster or node."""
        for each in self.dirs:
            each.claim(cluster_id, node_id, random_uuid(self._rng), comment)

    # --- starting and stopping ---

    def load(self, config_for: Callable[[TopicPartition], LogConfig], now_ms: int) -> None:
        """Open all logs. The metadata log is its owner's to open."""
        for log_dir in self.dirs:
            self._guard(log_dir, partial(self._load_dir, log_dir, config_for, now_ms))

    def _load_dir(
        self, log_dir: LogDir, config_for: Callable[[TopicPartition], LogConfig], now_ms: int
    ) -> None:
        partitions, doomed = log_dir.find_partitions()
        self._doomed += [_Doomed(now_ms, path, log_dir, None) for path in doomed]
        for partition, last in partitions.items():
            if partition.topic == METADATA_TOPIC:
                continue
            other = self.get(partition)
            if other is not None:
                raise LocalError(f"{partition} lies in both {other.log_dir} and {log_dir.path}")
            log_dir.add(
                open_log(
                    self._disk,
                    log_dir.file(str(partition)),
                    partition,
                    log_dir.topic_id(partition),
                    config_for(partition),
                    last=last,
                    rng=self._rng,
                    now_ms=now_ms,
                    producer_expiration_ms=self._producer_expiration_ms,
                )
            )

    def close(self, now_ms: int, broker_epoch: int = -1) -> None:
        """A clean stop. No job may be outstanding."""
        for log_dir in self.dirs:
            self._guard(log_dir, partial(log_dir.close, broker_epoch, now_ms))
        self.release()

    def release(self) -> None:
        """Give up the locks."""
        for log_dir in self.dirs:
            log_dir.release()

    # --- logs ---

    def get(self, partition: TopicPartition) -> Log | None:
        for log_dir in self.dirs:
            log = log_dir.logs.get(partition)
            if log is not None:
                return log
        return None

    def logs(self) -> Iterator[Log]:
        for log_dir in self.dirs:
            yield from log_dir.logs.values()

    def dir_of(self, log: Log) -> LogDir:
        return next(each for each in self.dirs if each.path == log.log_dir)

    def create_log(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
        *,
        directory_id: Uuid = ZERO_UUID,
    ) -> Log:
        """A new, empty log in the directory with that id, or else in the one with the fewest logs.

        It is durable with its first flush.
        """
        known = self.get(partition)
        if known is not None:
            raise LocalError(f"{partition} exists in {known.log_dir}")
        online = [each for each in self.dirs if each.online]
        if not online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "all log directories are offline")
        if directory_id != ZERO_UUID:
            online = [each for each in online if each.directory_id == directory_id]
            if not online:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "the log directory that it belongs to is offline"
                )
        for log_dir in sorted(online, key=lambda each: len(each.logs)):
            if self._guard(log_dir, partial(self._make_log, log_dir, partition, topic_id, config, now_ms)):
                return log_dir.logs[partition]
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory that could hold it has failed")

    def _make_log(
        self, log_dir: LogDir, partition: TopicPartition, topic_id: Uuid, config: LogConfig, now_ms: int
    ) -> None:
        directory = log_dir.file(str(partition))
        log = open_log(
            self._disk,
            directory,
            partition,
            topic_id,
            config,
            last=LastKnown(clean=True),
            rng=self._rng,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
        )
        if topic_id != ZERO_UUID:
            file = self._disk.open(f"{directory}/{PARTITION_METADATA_FILE}", create=True)
            try:
                file.pwritev([topic_id_content(topic_id)], 0)
            finally:
                file.close()
        log_dir.add(log)

    def delete_log(self, partition: TopicPartition, now_ms: int) -> None:
        """Forget a log, durably after `sync_deletions`; its files go after `file.delete.delay.ms`."""
        log = self.get(partition)
        if log is None:
            return
        log_dir = self.dir_of(log)
        if self._watcher is not None:
            self._watcher.deleted(log)
        del log_dir.logs[partition]
        target = log_dir.file(log_files.delete_dir(partition, random_uuid(self._rng).hex))

        if self._guard(log_dir, partial(self._disk.rename, log.directory, target)):
            if log_dir not in self._renamed_in:
                self._renamed_in.append(log_dir)
            log.leave(target)
            self._doomed.append(_Doomed(now_ms + log.config.file_delete_delay_ms, target, log_dir, log))
        else:
            log.fail()

    def sync_deletions(self) -> None:
        """Make durable what `delete_log` did since the last call.

        One sync of a directory serves all of them: one for each partition would hold up the event loop for
        seconds when many topics go at once.
        """
        renamed_in, self._renamed_in = self._renamed_in, []
        for log_dir in renamed_in:
            self._guard(log_dir, partial(self._disk.sync_dir, log_dir.path))

    def set_aside(self, partition: TopicPartition) -> None:
        """Give a log that nobody knows a name under which it is never opened again; nothing of it is removed."""
        log = self.get(partition)
        if log is None:
            return
        log_dir = self.dir_of(log)
        del log_dir.logs[partition]
        target = log_dir.file(log_files.stray_dir(partition, random_uuid(self._rng).hex))

        def rename() -> None:
            self._disk.rename(log.directory, target)
            self._disk.sync_dir(log_dir.path)

        if self._guard(log_dir, rename):
            log.leave(target)
            log.segments.close()
            _logger.warning("a partition that the metadata does not know was set aside", directory=target)

    # --- from time to time ---

    def enforce_retention(self, now_ms: int) -> int:
        """Delete segments that are too old or too many (`log.retention.check.interval.ms`).

        Returns how many.
        """
        deleted = 0

        def enforce(log_dir: LogDir) -> None:
            nonlocal deleted
            for log in log_dir.logs.values():
                deleted += log.delete_old_segments(now_ms)

        self._each(enforce)
        return deleted

    def flush_due(self, now_ms: int) -> list[Log]:
        """Logs with unflushed records whose last flush is `flush.ms` ago."""
        return [
            log
            for log in self.logs()
            if log.flushed_offset < log.readable_offset
            and not log.offline
            and now_ms - log.last_flush_ms >= log.config.flush_ms
        ]

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks."""
        self._each(LogDir.checkpoint)

    def remove_deleted(self, now_ms: int) -> int:
        """Remove files of segments and partitions whose time has come; returns how many of both.

        Of partitions only a few at a time, because all requests wait meanwhile: as long as something was
        removed, there may be more.
        """
        removed = 0

        def remove_segments(log_dir: LogDir) -> None:
            nonlocal removed
            for log in log_dir.logs.values():
                removed += log.segments.remove_doomed(now_ms)

        self._each(remove_segments)
        waiting = []
        turns = _PARTITIONS_REMOVED_MAX
        for doomed in self._doomed:
            due = doomed.remove_at_ms <= now_ms and not (
                doomed.log is not None and doomed.log.job_outstanding
            )
            if not due or turns == 0:
                waiting.append(doomed)
                continue
            turns -= 1
            if self._guard(doomed.log_dir, partial(self._remove, doomed)):
                removed += 1
        self._doomed = waiting
        return removed

    def _remove(self, doomed: _Doomed) -> None:
        if doomed.log is not None:
            doomed.log.segments.close()
        self._disk.rmtree(doomed.path)

    def keep_producers(self, expiration_ms: int) -> None:
        """`producer.id.expiration.ms` has changed."""
        self._producer_expiration_ms = expiration_ms
        for log in self.logs():
            log.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that have been silent for `producer.id.expiration.ms`."""
        for log in self.logs():
            log.producers.remove_expired(now_ms)

    # --- failure ---

    def fail(self, fault: StorageFault) -> None:
        """A directory failed under somebody else's hands."""
        for log_dir in self.dirs:
            if log_dir.path == fault.directory and log_dir.online:
                log_dir.fail(fault)
                self._tell(log_dir)

    def _each(self, work: Callable[[LogDir], None]) -> None:
        for log_dir in self.dirs:
            self._guard(log_dir, partial(work, log_dir))

    def _guard(self, log_dir: LogDir, work: Callable[[], None]) -> bool:
        was_online = log_dir.online
        done = log_dir.guard(work)
        if was_online and not log_dir.online:
            self._tell(log_dir)
        return done

    def _tell(self, log_dir: LogDir) -> None:
        if self._on_offline is not None:
            self._on_offline(log_dir)
