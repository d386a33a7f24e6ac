"""Moves one log to another log directory of the broker, while it is used (AlterReplicaLogDirs).

The records are copied to `<topic>-<partition>.<unique>-future` in the target directory, some at a time, in the
executor. When the copy has all of them, both are exchanged:

1. The log is held: what is appended from now on is staged and waits, so nothing is acknowledged.
2. The rest is copied, and the copy is closed. Its directory gets the name of the partition, durably. It is opened as
   after a clean stop.
3. The copy takes over the staged records and the state in memory, and replaces the log. It is held, too.
4. The directory of the old log is renamed to be deleted, durably. The copy is released and writes what was staged.

Crash policy: before step 2 has renamed the copy, the old log is used, and the copy is removed and made again. Between
the two renames both directories have the partition, with the same acknowledged records, and the metadata decides
(`LogDirs.set_copies_aside`); therefore the exchange waits until the metadata names the old directory. An empty
`-future` directory causes the move to be repeated then. Later only the copy is left. The log start and the absence of a
recovery point are in the checkpoints of the target before step 2.

A log that is truncated meanwhile, or whose oldest records are deleted before they are copied, is copied again from its
start. The move ends if the log is deleted, if one of the directories fails, or if the target is full.

Concurrency: the event loop. The copy belongs to the worker thread of the running step until it replaces the log.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, LocalError, StorageFault
from ottla.base.executor import Executor
from ottla.base.files import Disk
from ottla.base.promise import Promise
from ottla.base.rng import Random, random_uuid
from ottla.records.batch import read_header
from ottla.storage.bulk import run_one
from ottla.storage.checkpoints import PARTITION_METADATA_FILE, write_topic_id
from ottla.storage.log import log_files
from ottla.storage.log.log import Log
from ottla.storage.log.log_jobs import HoldJob
from ottla.storage.log.log_slice import LogSlice
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs
from ottla.storage.recovery.recovery import LastKnown, open_log

CHUNK_BYTES: Final = 1 << 20
_RETRY_S: Final = 0.05
_WRITE_WAIT_S: Final = 0.002
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_logger = structlog.get_logger(__name__)
R = TypeVar("R")


class MoveEnvironment(NamedTuple):
    """The parts of a broker that moves use."""

    dirs: LogDirs
    disk: Disk
    executor: Executor
    clock: Clock
    rng: Random
    later: Callable[[float, Callable[[], None]], object]
    schedule: Callable[[Log], None]
    """Start to write what a log has staged (`storage.commit`)."""


class MoveOwner(Protocol):
    """Decides when a move may proceed, and is notified of its result (`replication.log_moves`)."""

    def may_copy(self, move: LogMove) -> bool:
        """Whether the move may copy now; if not, `proceed` is called later."""
        ...

    def may_exchange(self, move: LogMove) -> bool:
        """Whether the metadata names the directory of the log, so that a start after a crash knows which to use."""
        ...

    def exchanged(self, move: LogMove, log: Log) -> None:
        """Use `log` from now on."""
        ...

    def released(self, move: LogMove, log: Log) -> None:
        """The move is complete; `log` is offline if the old one could not be removed."""
        ...


class LogMove:
    """One move. `done` is kept when it has ended, for whatever reason."""

    def __init__(
        self,
        log: Log,
        target: LogDir,
        environment: MoveEnvironment,
        owner: MoveOwner,
        leftover: str = "",
    ) -> None:
        """`leftover` is the copy of an earlier move, which is removed when there is a new one."""
        self.log = log
        self._leftover = leftover
        self.target = target
        self.partition = log.topic_partition
        self.end_offset = 0
        """The copy has the records below it ..."""
        self.size_bytes = 0
        """... in so many bytes."""
        self.created: Promise[ErrorCode] = Promise()
        """Kept when the directory of the copy is durable, or when the move ends without one."""
        self.done: Promise[None] = Promise()
        self.done.when_done(lambda _, __: self._answer(ErrorCode.NONE))
        self._environment = environment
        self._owner = owner
        self._directory = ""
        """Of the copy; empty while there is none."""
        self._marker = ""
        """An empty directory, named as a copy, while the copy has the name of the partition: a start moves it again."""
        self._copy: Log | None = None
        self._hold: HoldJob | None = None
        self._truncations = 0
        self._prepared = False
        self._running = False
        self._exchanged = False
        self._waiting = False
        self._ending: Callable[[], None] | None = None

    # Control

    def start(self) -> None:
        """Create the copy and fill it."""
        log = self.log
        self._truncations, self._prepared = log.truncations, False
        try:
            batch = log.read_bytes(log.log_start_offset, 1, upto=log.readable_offset)
        except (ApiError, StorageFault) as error:
            self._failed(error)
            return
        self.end_offset, self.size_bytes = log.log_start_offset, 0
        first = read_header(batch).base_offset if batch else log.log_start_offset
        self._step(partial(self._create, first), self._created)

    def proceed(self) -> None:
        """The move may copy now, if it waited for that."""
        if self._waiting:
            self._waiting = False
            self._continue()

    @property
    def holds_log(self) -> bool:
        """Whether appends to the log wait for the exchange."""
        return self._hold is not None

    def cancel(self) -> None:
        """End the move and remove the copy, unless it replaces the log already."""
        self._end(self._discard)

    def stop(self) -> Promise[None]:
        """End the move for a stop of the broker: the copy stays, so that the next start moves the log again."""
        self._end(self._leave)
        return self.done

    def _end(self, ending: Callable[[], None]) -> None:
        if self.done.done or self._exchanged or self._ending is not None:
            return
        self._ending = ending
        if not self._running:
            ending()

    # Copying

    def _create(self, first: int) -> Log:
        """Create the copy, in a worker; its name is durable, so that a restart continues the move."""
        disk, log, target = self._environment.disk, self.log, self.target
        if disk.exists(target.file(str(self.partition))):
            raise LocalError(f"{target.path} has a directory {self.partition} already")
        self._directory = target.file(log_files.future_dir(self.partition, self._unique()))
        copy = self._open(self._directory, 0)
        now_ms = self._environment.clock.now_ms()
        if first:
            copy.perform(copy.take_restart(first, now_ms))
        write_topic_id(disk, f"{self._directory}/{PARTITION_METADATA_FILE}", log.topic_id)
        disk.sync_dir(self._directory)
        disk.sync_dir(target.path)
        self._remove_leftover()
        return copy

    def _remove_leftover(self) -> None:
        leftover, self._leftover = self._leftover, ""
        if leftover and self._environment.disk.exists(leftover):
            self._environment.disk.rmtree(leftover)

    def _created(self, copy: Log) -> None:
        self._copy = copy
        self._answer(ErrorCode.NONE)
        self._continue()

    def _answer(self, code: ErrorCode) -> None:
        if not self.created.done:
            self.created.keep(code)

    def _continue(self) -> None:
        """Copy the next records, or proceed if there are none."""
        log = self.log
        if self._ending is not None or self.done.done:
            return
        if log.closed or log.offline or not self.target.online:
            self.cancel()
        elif log.truncations != self._truncations or log.log_start_offset > self.end_offset:
            self._start_over()
        elif not self._owner.may_copy(self):
            self._waiting = True
        else:
            try:
                found = log.read(self.end_offset, CHUNK_BYTES, upto=log.readable_offset)
            except (ApiError, StorageFault) as error:
                self._failed(error)
                return
            if found.size:
                self._step(partial(self._append, found), self._appended)
            else:
                self._caught_up()

    def _append(self, found: LogSlice) -> tuple[int, int]:
        """Append records to the copy, durably, in a worker; returns its end and its size."""
        copy, now_ms = self._copied(), self._environment.clock.now_ms()
        copy.append_raw(found.read(), now_ms)
        copy.flush(now_ms)
        return copy.log_end_offset, copy.size_bytes

    def _appended(self, reached: tuple[int, int]) -> None:
        self.end_offset, self.size_bytes = reached
        self._continue()

    def _caught_up(self) -> None:
        log = self.log
        if not self._prepared:
            self._prepare()
        elif self._hold is None:
            self._take_hold()
        elif log.log_start_offset != self.target.arriving[self.partition]:
            self._release()
            self._prepared = False
            self._continue()
        else:
            self._step(self._finish_copy, self._exchange)

    def _prepare(self) -> None:
        """Write the checkpoints of the target: with the log start of the copy, and without a recovery point of it."""
        self.target.arriving[self.partition] = self.log.log_start_offset
        self._running = True

        def written(_: None, __: BaseException | None) -> None:
            self._running = False
            self._prepared = True
            if self._ending is not None:
                self._ending()
            else:
                self._continue()

        self.target.checkpoint().when_done(written)

    def _take_hold(self) -> None:
        hold = self.log.take_hold() if self._owner.may_exchange(self) else None
        if hold is None:
            self._environment.later(_RETRY_S, self._continue)
            return
        self._hold = hold
        self._await_writes()

    def _await_writes(self) -> None:
        if self._hold is not None and self._hold.writing:
            self._environment.later(_WRITE_WAIT_S, self._await_writes)
        else:
            self._continue()

    # The exchange

    def _finish_copy(self) -> Log:
        """Close the copy, give it the name of the partition, and open it, in a worker."""
        environment, final = self._environment, self.target.file(str(self.partition))
        self._copied().close(environment.clock.now_ms())
        self._marker = self.target.file(log_files.future_dir(self.partition, self._unique()))
        environment.disk.mkdir(self._marker)
        environment.disk.sync_dir(self.target.path)
        environment.disk.rename(self._directory, final)
        self._directory = final
        environment.disk.sync_dir(self.target.path)
        return self._open(final, self.target.arriving[self.partition])

    def _exchange(self, new: Log) -> None:
        """Replace the log by the copy, unless it has been truncated or deleted, or is about to be."""
        log, hold = self.log, self._hold
        self._copy = new
        if hold is None or log.closed or log.offline or not self.target.online:
            self.cancel()
            return
        if log.truncations != self._truncations or log.awaited:
            self._start_over()
            return
        staged = hold.unwritten()
        try:
            if staged:
                new.append_raw(staged, self._environment.clock.now_ms())
        except (ApiError, StorageFault) as error:
            self._failed(error)
            return
        hold.drop_unwritten()
        new.reconfigure(log.config)
        new.producers = log.producers
        new.epochs.adopt(log.epochs)
        new.high_watermark = log.high_watermark
        new.increment_log_start_offset(log.log_start_offset)
        new.followed = log.followed
        new.is_copy = log.is_copy
        self._exchanged = True
        held = new.take_hold()
        self.target.arriving.pop(self.partition, None)
        source = self._environment.dirs.dir_of(log)
        self._environment.dirs.exchange(log, new)
        self._owner.exchanged(self, new)
        run_one(self._environment.executor, partial(self._remove_old, source), partial(self._removed, held))

    def _remove_old(self, source: LogDir) -> str:
        path = source.file(log_files.delete_dir(self.partition, self._unique()))
        self._environment.disk.rename(self.log.directory, path)
        self._environment.disk.sync_dir(source.path)
        self._environment.disk.rmtree(self._marker)
        return path

    def _removed(self, held: HoldJob | None, result: str | Exception) -> None:
        """The old directory has another name. If not, nothing may be acknowledged: a restart would use it."""
        log, new, environment = self.log, self._copied(), self._environment
        if self._hold is not None:
            log.finished(self._hold)
        if isinstance(result, Exception):
            new.fail()
            environment.dirs.fail(_fault(log.log_dir, result))
        else:
            log.moved(result)
            environment.dirs.keep_deleted(environment.clock.now_ms(), log)
            if held is not None:
                new.finished(held)
            environment.schedule(new)
            _logger.info("log moved to another directory", log=str(self.partition), directory=new.log_dir)
        self._owner.released(self, new)
        self.done.keep(None)

    # The end

    def _release(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            self.log.finished(hold)
            if not self.log.closed and not self.log.offline:
                self._environment.schedule(self.log)

    def _start_over(self) -> None:
        def removed() -> None:
            if self._ending is not None:
                self._ending()
            else:
                self._environment.later(_RETRY_S, self._start_again)

        self._remove_copy(removed)

    def _start_again(self) -> None:
        if self._ending is None:
            self.start()

    def _discard(self) -> None:
        self._remove_copy(self._done)

    def _done(self) -> None:
        self.done.keep(None)

    def _leave(self) -> None:
        if self._marker:
            self._remove_copy(self._done, keep_marker=True)
            return
        self._release()
        if self._copy is not None:
            self._copy.segments.close()
        self.target.arriving.pop(self.partition, None)
        self.done.keep(None)

    def _remove_copy(self, then: Callable[[], None], *, keep_marker: bool = False) -> None:
        """Release the log and remove the copy, if there is one."""
        self._release()
        self.target.arriving.pop(self.partition, None)
        copy, self._copy = self._copy, None
        directory, self._directory = self._directory, ""
        marker, self._marker = "" if keep_marker else self._marker, ""
        path = self.target.file(log_files.delete_dir(self.partition, self._unique()))

        def remove() -> None:
            if copy is not None:
                copy.segments.close()
            if directory and self._environment.disk.exists(directory):
                self._environment.disk.rename(directory, path)
                self._environment.disk.sync_dir(self.target.path)
            self._remove_leftover()
            if marker and self._environment.disk.exists(marker):
                self._environment.disk.rmtree(marker)

        def removed(result: Exception | None) -> None:
            self._running = False
            if result is not None:
                self._environment.dirs.fail(_fault(self.target.path, result))
            elif directory:
                now_ms = self._environment.clock.now_ms()
                self._environment.dirs.remove_copy(path, self.target, now_ms)
            then()

        self._running = True
        if self.target.online:
            run_one(self._environment.executor, remove, removed)
        else:
            self._running = False
            then()

    def _failed(self, error: Exception) -> None:
        cause: BaseException = error
        while isinstance(cause, StorageFault):
            cause = cause.cause
        is_full = isinstance(cause, OSError) and cause.errno in _DISK_FULL
        if isinstance(error, OSError | StorageFault) and not is_full:
            self._environment.dirs.fail(_fault(self.target.path, error))
        elif not is_full and not isinstance(error, ApiError | LocalError):
            raise error
        _logger.warning(
            "log cannot be moved", log=str(self.partition), target=self.target.path, reason=str(error)
        )
        self._answer(ErrorCode.KAFKA_STORAGE_ERROR)
        self.cancel()

    # Steps

    def _step(self, work: Callable[[], R], then: Callable[[R], None]) -> None:
        """Run one piece of work in the executor, then continue, or end if that was requested meanwhile."""
        self._running = True

        def finished(result: R | Exception) -> None:
            self._running = False
            if self._ending is not None:
                if not isinstance(result, Exception):
                    self._keep(result)
                self._ending()
            elif not isinstance(result, Exception):
                then(result)
            elif self.log.truncations != self._truncations:
                self._start_over()  # the segment that was being read is not there any more
            else:
                self._failed(result)

        run_one(self._environment.executor, work, finished)

    def _keep(self, result: Any) -> None:
        if isinstance(result, Log):
            self._copy = result

    def _copied(self) -> Log:
        if self._copy is None:
            raise LocalError(f"{self.partition} has no copy in {self.target.path}")
        return self._copy

    def _open(self, directory: str, log_start_offset: int) -> Log:
        environment, log = self._environment, self.log
        return open_log(
            environment.disk,
            directory,
            self.partition,
            log.topic_id,
            log.config,
            last=LastKnown(clean=True, log_start_offset=log_start_offset),
            rng=environment.rng,
            now_ms=environment.clock.now_ms(),
        )

    def _unique(self) -> str:
        return random_uuid(self._environment.rng).hex


def _fault(directory: str, error: Exception) -> StorageFault:
    return error if isinstance(error, StorageFault) else StorageFault(directory, error)
