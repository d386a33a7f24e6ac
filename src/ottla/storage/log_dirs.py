"""All logs of a broker, in one or more log directories.

Starting: `LogDirs` locks the directories and reads their identity; `claim` gives new ones an identity; `load` opens
the logs, with recovery where the last stop was not clean. `close` is the clean stop.

A new log is created in the directory with the fewest. A deleted one has its directory renamed, and removed when
`file.delete.delay.ms` have passed.

Recurring work is offered as functions that take the time (`enforce_retention`, `flush_due`, `checkpoint`,
`remove_deleted`, `expire_producers`); the owner of the loop calls them.

Whatever touches the disk for many logs runs in the executor, some logs at a time (`bulk`), and returns a promise
that is kept when it is complete. `close` waits for all of it.

Failure: every error of a directory is reported to `fail`. The directory goes offline, `on_offline` is
notified, and the others are used further. What to do when none is left is decided by the node.

Concurrency: the event loop only; what runs in a worker thread is given the files of logs that nothing else uses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
import structlog

from ottla.base.errors import ApiError, ErrorCode, LocalError, StorageFault
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC, ZERO_UUID, TopicPartition, Uuid
from ottla.base.promise import Promise
from ottla.base.rng import Random, random_uuid
from ottla.storage.bulk import counted, in_order, run_bulk, run_one, settled_anyhow
from ottla.storage.checkpoints import PARTITION_METADATA_FILE, topic_id_content
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.log_jobs import DeletionJob
from ottla.storage.log_dir import LogDir
from ottla.storage.recovery.recovery import PRODUCER_EXPIRATION_MS, LastKnown, open_log

_logger = structlog.get_logger(__name__)


class LogWatcher(Protocol):
    """A component that remembers something about logs (`storage.cleaning.cleaner`)."""

    def truncated(self, log: Log, offset: int) -> None:
        """The log is being cut at `offset`."""
        ...

    def deleted(self, log: Log) -> None:
        """The log is being deleted."""
        ...


class NewLog(NamedTuple):
    """A log to be created, in the directory with that id if it has one."""

    partition: TopicPartition
    topic_id: Uuid
    config: LogConfig
    directory_id: Uuid = ZERO_UUID


OnCreated = Callable[[NewLog, Log | Exception], None]


class _DeletedLog(msgspec.Struct):
    """A partition's directory that is to be removed."""

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
        executor: Executor,
        *,
        on_offline: Callable[[LogDir], None] | None = None,
    ) -> None:
        """Lock the directories. LocalError if another broker has one of them, or if none can be used."""
        self._disk = disk
        self._rng = rng
        self._executor = executor
        self._producer_expiration_ms = PRODUCER_EXPIRATION_MS
        self._on_offline = on_offline
        self._watcher: LogWatcher | None = None
        self._deleted: list[_DeletedLog] = []
        self._running: dict[Promise[None], None] = {}
        self.dirs: list[LogDir] = []
        self.unusable: dict[str, OSError] = {}
        self.preferred: dict[TopicPartition, str] = {}
        """Where logs are to be created that do not exist yet."""
        try:
            for path in paths:
                self._open_dir(path)
        except BaseException:
            self.release()
            raise
        if not self.dirs:
            reasons = "; ".join(f"{path}: {error.strerror or error}" for path, error in self.unusable.items())
            raise LocalError(
                f"no log directory can be used: {reasons} (choose others with --data or log.dirs)"
            )

    def _open_dir(self, path: str) -> None:
        directory = path.rstrip("/")
        try:
            self.dirs.append(LogDir(self._disk, path, self._executor, partial(self._failed, directory)))
        except OSError as error:
            _logger.error("log directory cannot be used", directory=path, error=str(error))  # noqa: TRY400
            self.unusable[path] = error

    def watch(self, watcher: LogWatcher) -> None:
        """Notify `watcher` of every log that is truncated or deleted from now on."""
        self._watcher = watcher

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in the directories; None if all are new."""
        known = {meta.cluster_id for each in self.dirs if (meta := each.meta) and meta.cluster_id}
        if len(known) > 1:
            raise LocalError(f"the log directories belong to different clusters: {sorted(known)}")
        return known.pop() if known else None

    def claim(self, cluster_id: str, node_id: int, comment: str = "") -> None:
        """Give new directories an identity; LocalError if one belongs to another cluster or node."""
        for each in self.dirs:
            each.claim(cluster_id, node_id, random_uuid(self._rng), comment)

    # --- starting and stopping ---

    def load(self, config_for: Callable[[TopicPartition], LogConfig], now_ms: int) -> Promise[None]:
        """Open all logs. The metadata log is its owner's to open. `set_copies_aside` follows, if there may be any."""
        return in_order(partial(self._load_dir, each, config_for, now_ms) for each in self.dirs)

    def _load_dir(
        self, log_dir: LogDir, config_for: Callable[[TopicPartition], LogConfig], now_ms: int
    ) -> Promise[None]:
        loaded: Promise[None] = Promise()
        problems: list[Exception] = []

        def found(result: tuple[dict[TopicPartition, LastKnown], list[str]] | Exception) -> None:
            if isinstance(result, Exception):
                self._report(log_dir, result, problems)
                settle(None, None)
                return
            partitions, deleted = result
            self._deleted += [_DeletedLog(now_ms, path, log_dir, None) for path in deleted]
            run_bulk(self._executor, _openings(partitions, config_for), open_one, opened).when_done(settle)

        def open_one(opening: tuple[TopicPartition, LastKnown, LogConfig]) -> Log | None:
            partition, last, config = opening
            return self._open(log_dir, partition, last, config, now_ms) if log_dir.online else None

        def opened(_: object, result: Log | Exception | None) -> None:
            if isinstance(result, Exception):
                self._report(log_dir, result, problems)
            elif result is not None:
                log_dir.add(result)

        def settle(_: None, error: BaseException | None) -> None:
            failure = problems[0] if problems else error
            if failure is None:
                loaded.keep(None)
            else:
                loaded.fail(failure)

        run_one(self._executor, log_dir.find_partitions, found)
        return loaded

    def _open(
        self, log_dir: LogDir, partition: TopicPartition, last: LastKnown, config: LogConfig, now_ms: int
    ) -> Log:
        """Open a log that exists, in a worker."""
        return open_log(
            self._disk,
            log_dir.file(str(partition)),
            partition,
            log_dir.topic_id(partition),
            config,
            last=last,
            rng=self._rng,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    def _report(self, log_dir: LogDir, error: Exception, problems: list[Exception]) -> None:
        """An error of the disk takes the directory offline; any other one ends the start."""
        if isinstance(error, OSError | StorageFault):
            self._failed(log_dir.path, error)
        else:
            problems.append(error)

    def close(self, now_ms: int, broker_epoch: int = -1) -> Promise[None]:
        """A clean stop. No write or flush may be outstanding; other jobs are waited for."""
        closed = in_order(
            [
                *(partial(settled_anyhow, promise) for promise in self._running),
                *(partial(each.close, broker_epoch, now_ms) for each in self.dirs),
            ]
        )
        closed.when_done(lambda _, __: self.release())
        return closed

    def release(self) -> None:
        """Release the locks."""
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

    def is_online(self, directory_id: Uuid) -> bool:
        """Whether this broker has the directory, and it has not failed."""
        return any(each.online and each.directory_id == directory_id for each in self.dirs)

    def abandon(self, log: Log) -> None:
        """Forget a log in a failed directory, so that it can be created in another one. Its files are not changed."""
        log.closed = True
        self.dir_of(log).remove(log)

    def set_topic_id(self, log: Log, topic_id: Uuid) -> None:
        """Assign a log whose `partition.metadata` was lost to a topic, and write the file again, durably."""
        log.topic_id = topic_id
        write = partial(
            self._disk.replace, f"{log.directory}/{PARTITION_METADATA_FILE}", topic_id_content(topic_id)
        )
        _logger.warning("partition.metadata was lost and is written again", directory=log.directory)

        def written(result: Exception | None) -> None:
            if result is not None and not log.closed:
                self._failed(log.log_dir, result)

        self._track(run_one(self._executor, write, written))

    def create_logs(self, wanted: Iterable[NewLog], now_ms: int, on_created: OnCreated) -> Promise[None]:
        """Create empty logs; `on_created` gets each of them, or why it could not be created.

        Each becomes durable with its first flush.
        """
        creation = _Creation(self, deque(wanted), on_created)
        names = [new.partition for new in creation.wanted]
        create = partial(run_bulk, self._executor, creation, partial(self._create, now_ms), creation.created)
        return self._track(in_order([*(partial(each.forget, names) for each in self.dirs), create]))

    def choose_dir(self, new: NewLog) -> LogDir:
        """Where a new log belongs: in its directory, or else in the one with the fewest logs."""
        known = self.get(new.partition)
        if known is not None:
            raise LocalError(f"{new.partition} exists in {known.log_dir}")
        online = [each for each in self.dirs if each.online]
        if not online:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "all log directories are offline")
        if new.directory_id != ZERO_UUID:
            online = [each for each in online if each.directory_id == new.directory_id]
            if not online:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR, "the log directory that it belongs to is offline"
                )
        elif (preferred := self.preferred.pop(new.partition, None)) is not None:
            online = [each for each in online if each.path == preferred] or online
        return min(online, key=lambda each: len(each.logs) + each.creating)

    def _create(self, now_ms: int, item: tuple[NewLog, LogDir]) -> Log:
        """Create a log, in a worker."""
        new, log_dir = item
        directory = log_dir.file(str(new.partition))
        log = open_log(
            self._disk,
            directory,
            new.partition,
            new.topic_id,
            new.config,
            last=LastKnown(clean=True),
            rng=self._rng,
            now_ms=now_ms,
            producer_expiration_ms=self._producer_expiration_ms,
        )
        if new.topic_id != ZERO_UUID:
            file = self._disk.open(f"{directory}/{PARTITION_METADATA_FILE}", create=True)
            try:
                file.pwritev([topic_id_content(new.topic_id)], 0)
            finally:
                file.close()
        return log

    def delete_logs(self, partitions: Iterable[TopicPartition], now_ms: int) -> Promise[None]:
        """Delete logs, durably when the promise is kept; their files are removed after `file.delete.delay.ms`."""
        logs = [log for each in partitions if (log := self.get(each)) is not None]
        for log in logs:
            if self._watcher is not None:
                self._watcher.deleted(log)
        return self._rename_logs(logs, log_files.delete_dir, partial(self.keep_deleted, now_ms))

    def exchange(self, old: Log, new: Log) -> None:
        """Use `new`, in another directory, in place of `old`, whose records it has."""
        if self._watcher is not None:
            self._watcher.deleted(old)
        self.dir_of(old).remove(old)
        old.closed = True
        self.dir_of(new).logs[new.topic_partition] = new

    def remove_copy(self, path: str, log_dir: LogDir, now_ms: int) -> None:
        """Remove the directory of a copy that is not used any more."""
        self._deleted.append(_DeletedLog(now_ms, path, log_dir, None))

    def keep_deleted(self, now_ms: int, log: Log) -> None:
        """Remove a log that was renamed, after `file.delete.delay.ms`."""
        remove_at_ms = now_ms + log.config.file_delete_delay_ms
        self._deleted.append(_DeletedLog(remove_at_ms, log.directory, self.dir_of(log), log))

    def set_aside(self, partitions: Iterable[TopicPartition]) -> Promise[None]:
        """Rename logs that the metadata does not know, so that they are never opened again; nothing is removed."""
        logs = [log for each in partitions if (log := self.get(each)) is not None]
        return self._set_aside(logs, "a partition that the metadata does not know was set aside")

    def set_copies_aside(self, directory_of: Callable[[TopicPartition], Uuid | None]) -> Promise[None]:
        """Set aside the logs of partitions that are also in the directory to which the metadata assigns them.

        A replica whose directory has failed is copied to another one. If the failed directory can be used again after
        a restart, both have the partition. LocalError if the metadata names neither; None: there is no such replica.
        """
        found: dict[TopicPartition, list[Log]] = {}
        for log in self.logs():
            found.setdefault(log.topic_partition, []).append(log)
        copies = []
        for partition, logs in found.items():
            if len(logs) > 1:
                wanted = directory_of(partition)
                kept = [each for each in logs if wanted in (None, self.dir_of(each).directory_id)]
                if not kept:
                    places = " and ".join(each.log_dir for each in logs)
                    raise LocalError(f"{partition} is in both {places}: remove one of them")
                copies += [each for each in logs if each is not kept[0]]
        return self._set_aside(copies, "a partition that was copied to another directory was set aside")

    def _set_aside(self, logs: Sequence[Log], event: str) -> Promise[None]:
        def renamed(log: Log) -> None:
            log.segments.close()
            _logger.warning(event, directory=log.directory)

        return self._rename_logs(logs, log_files.stray_dir, renamed)

    def _rename_logs(
        self,
        logs: Sequence[Log],
        name: Callable[[TopicPartition, str], str],
        on_renamed: Callable[[Log], None],
    ) -> Promise[None]:
        """Remove logs from their directories under new names; one sync of a directory serves all of them."""
        targets = {}
        for log in logs:
            log_dir = self.dir_of(log)
            log_dir.remove(log)
            log.closed = True
            targets[log] = log_dir.file(name(log.topic_partition, random_uuid(self._rng).hex))

        def handle(log: Log, result: Exception | None) -> None:
            if result is None:
                log.moved(targets[log])
                on_renamed(log)
            else:
                log.fail()
                self._failed(log.log_dir, result)

        renaming = partial(
            run_bulk,
            self._executor,
            [log for log in logs if self.dir_of(log).online],
            lambda log: self._disk.rename(log.directory, targets[log]),
            handle,
        )
        touched = [each for each in self.dirs if any(log.log_dir == each.path for log in logs)]
        return self._track(in_order([renaming, *(partial(self._sync_names, each) for each in touched)]))

    def _sync_names(self, log_dir: LogDir) -> Promise[None]:
        if not log_dir.online:
            return Promise.kept(None)
        return run_one(
            self._executor,
            partial(self._disk.sync_dir, log_dir.path),
            lambda result: None if result is None else self._failed(log_dir.path, result),
        )

    def truncate(self, log: Log, offset: int, now_ms: int) -> Promise[None]:
        """Remove the records at and above `offset`, durably. No job may be outstanding and nothing staged."""
        job = log.take_truncation(offset, now_ms)
        if job is None:
            return Promise.kept(None)
        if self._watcher is not None:
            self._watcher.truncated(log, offset)
        return self._track(self.dir_of(log).truncate(log, job, offset))

    def restart(self, log: Log, offset: int, now_ms: int) -> Promise[None]:
        """Remove all records, durably; the log continues at `offset`. Requires the same as `truncate`."""
        # A crash may leave the oldest records.
        lowest = min(offset, log.segments.first.base_offset)
        job = log.take_restart(offset, now_ms)
        if self._watcher is not None:
            self._watcher.truncated(log, lowest)
        return self._track(self.dir_of(log).truncate(log, job, lowest))

    # --- recurring work ---

    def enforce_retention(self, now_ms: int) -> Promise[int]:
        """Delete segments that are too old or too many (`log.retention.check.interval.ms`); returns how many."""
        count = 0

        def take() -> Iterator[tuple[Log, DeletionJob | None]]:
            for log in list(self.logs()):
                try:
                    yield log, None if log.closed else log.take_deletion(now_ms)
                except StorageFault as fault:
                    self.fail(fault)

        def handle(item: tuple[Log, DeletionJob | None], result: Exception | None) -> None:
            nonlocal count
            log, job = item
            if result is not None:
                if not log.closed:
                    self._failed(log.log_dir, result)
            elif job is not None:
                log.finished(job)
                count += len(job.segments)

        return counted(self._track(run_bulk(self._executor, take(), _run_job, handle)), lambda: count)

    def flush_due(self, now_ms: int) -> list[Log]:
        """Logs with unflushed records whose last flush is `flush.ms` ago."""
        return [
            log
            for log in self.logs()
            if log.flushed_offset < log.readable_offset
            and not log.offline
            and now_ms - log.last_flush_ms >= log.config.flush_ms
        ]

    def checkpoint(self) -> Promise[None]:
        """Write recovery points, log starts and high watermarks."""
        return self._track(in_order(each.checkpoint for each in self.dirs))

    def remove_deleted(self, now_ms: int) -> Promise[int]:
        """Remove files of segments and partitions of which the delay is over; returns how many of both."""
        due: list[tuple[LogDir, Callable[[], None]]] = []
        for log_dir in self.dirs:
            if log_dir.online:
                for log in log_dir.logs.values():
                    due += [(log_dir, segment.remove) for segment in log.segments.take_due(now_ms)]
        waiting = []
        for deleted in self._deleted:
            if deleted.remove_at_ms > now_ms or (deleted.log is not None and deleted.log.job_outstanding):
                waiting.append(deleted)
            elif deleted.log_dir.online:
                due.append((deleted.log_dir, partial(self._remove, deleted)))
        self._deleted = waiting
        count = 0

        def handle(item: tuple[LogDir, Callable[[], None]], result: Exception | None) -> None:
            nonlocal count
            if result is None:
                count += 1
            else:
                self._failed(item[0].path, result)

        return counted(
            self._track(run_bulk(self._executor, due, lambda item: item[1](), handle)), lambda: count
        )

    def _remove(self, deleted: _DeletedLog) -> None:
        if deleted.log is not None:
            deleted.log.segments.close()
        self._disk.rmtree(deleted.path)

    def keep_producers(self, expiration_ms: int) -> None:
        """`producer.id.expiration.ms` has changed."""
        self._producer_expiration_ms = expiration_ms
        for log in self.logs():
            log.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that have been silent for `producer.id.expiration.ms`."""
        for log in self.logs():
            if not log.truncating:  # a worker is making the state again
                log.producers.remove_expired(now_ms)

    # --- failure ---

    def fail(self, fault: StorageFault) -> None:
        """Take a directory offline: the one path for every error of a disk."""
        for log_dir in self.dirs:
            if log_dir.path == fault.directory and log_dir.online:
                _logger.error("log directory failed", directory=log_dir.path, error=str(fault))
                log_dir.fail(fault)
                if self._on_offline is not None:
                    self._on_offline(log_dir)

    def _failed(self, directory: str, error: Exception) -> None:
        if not isinstance(error, OSError | StorageFault):
            raise error
        self.fail(error if isinstance(error, StorageFault) else StorageFault(directory, error))

    def _track(self, promise: Promise[None]) -> Promise[None]:
        """Let `close` wait for work that is running."""
        if not promise.done:
            self._running[promise] = None
            promise.when_done(lambda _, __: self._running.pop(promise))
        return promise


class _Creation:
    """The logs that are left to be created, each with the directory that is chosen when it is taken."""

    def __init__(self, dirs: LogDirs, wanted: deque[NewLog], on_created: OnCreated) -> None:
        self._dirs = dirs
        self.wanted = wanted
        self._on_created = on_created

    def __iter__(self) -> _Creation:
        return self

    def __next__(self) -> tuple[NewLog, LogDir]:
        while self.wanted:
            new = self.wanted.popleft()
            try:
                log_dir = self._dirs.choose_dir(new)
            except (ApiError, LocalError) as error:
                self._on_created(new, error)
            else:
                log_dir.creating += 1
                return new, log_dir
        raise StopIteration

    def created(self, item: tuple[NewLog, LogDir], result: Log | Exception) -> None:
        new, log_dir = item
        log_dir.creating -= 1
        if isinstance(result, OSError | StorageFault):
            self._dirs.fail(
                result if isinstance(result, StorageFault) else StorageFault(log_dir.path, result)
            )
            self.wanted.append(new)  # another directory may take it
            return
        if isinstance(result, Log):
            log_dir.add(result)
        self._on_created(new, result)


def _openings(
    partitions: dict[TopicPartition, LastKnown], config_for: Callable[[TopicPartition], LogConfig]
) -> Iterator[tuple[TopicPartition, LastKnown, LogConfig]]:
    """What there is to open, with the settings of each topic looked up once."""
    configs: dict[str, LogConfig] = {}
    for partition, last in partitions.items():
        if partition.topic == METADATA_TOPIC:
            continue
        config = configs.get(partition.topic)
        if config is None:
            config = configs[partition.topic] = config_for(partition)
        yield partition, last, config


def _run_job(item: tuple[Log, DeletionJob | None]) -> None:
    if item[1] is not None:
        item[1].run()
