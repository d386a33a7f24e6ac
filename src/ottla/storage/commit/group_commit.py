"""Group commit: everything appended to a log during one write is written by the next.

`schedule` is called after an append. At the end of the iteration of the event loop (`defer`) each scheduled log
returns what it has staged as one job. A job that is a single write is passed to the writer, any other runs in the
executor. When it is done the log records the new offsets, `on_progress` notifies those that wait for its committable
offset, and if more was staged meanwhile the next job starts. So there is at most one write job per log, and the cost of
a sync is shared by all appends that waited for it. Followers copy the records of a job while it runs (`on_start`).

Sealed segments that no job had to sync, and logs for which `flush.ms` has passed, are synced by flush jobs.

Failure: the log goes offline and `on_fault` gets the `StorageFault`, which takes the directory offline. Nothing is
retried.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.base.clock import Clock
from ottla.base.errors import StorageFault
from ottla.base.executor import Executor
from ottla.base.writer import ExecutorWriter, Writer
from ottla.storage.commit.cache_release import CacheRelease
from ottla.storage.commit.space_reservation import SpaceReservation
from ottla.storage.commit.write_job import FlushJob, WriteJob
from ottla.storage.log.log import Log


class GroupCommit:
    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        *,
        defer: Callable[[Callable[[], None]], object],
        on_progress: Callable[[Log], None],
        on_fault: Callable[[StorageFault], None],
        on_start: Callable[[Log], None] | None = None,
        writer: Writer | None = None,
        cache_release: CacheRelease | None = None,
    ) -> None:
        """`on_start` is called when a write of a log that has followers has started and not ended at once.

        Without `cache_release`, logs that are only followed stay in the page cache as well.
        """
        self._executor = executor
        self._writer = writer or ExecutorWriter(executor)
        self._clock = clock
        self._defer = defer
        self._on_progress = on_progress
        self._on_fault = on_fault
        self._on_start = on_start
        self._cache_release = cache_release
        self._space_reservation = SpaceReservation(executor)
        self._scheduled: dict[int, Log] = {}
        self._jobs = 0
        self._when_idle: list[Callable[[], None]] = []

    @property
    def idle(self) -> bool:
        return self._jobs == 0 and not self._scheduled

    def schedule(self, log: Log) -> None:
        """Something was appended to `log`."""
        if not self._scheduled:
            self._defer(self._start_scheduled)
        self._scheduled[id(log)] = log

    def flush(self, log: Log, *, sealed_only: bool = False) -> None:
        """Sync what is written, unless a sync is running."""
        job = log.take_flush(sealed_only=sealed_only)
        if job is not None:
            self._jobs += 1
            self._executor.submit(job.run, partial(self._flushed, log, job))

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once nothing is scheduled or in flight."""
        self._when_idle.append(callback)
        self._notify_idle()

    def _start_scheduled(self) -> None:
        waiting, self._scheduled = deque(self._scheduled.values()), {}
        self._jobs += 1  # a write may finish at once, before the others have started
        try:
            while waiting:
                self._start(waiting.popleft())
        finally:
            for log in waiting:  # after an exception, which must not keep other logs from being written
                self.schedule(log)
            self._finish_job()

    def _start(self, log: Log) -> None:
        job = log.take_staged()
        if job is not None:
            self._jobs += 1
            done = partial(self._written, log, job)
            step = job.only_step
            if step is None:
                self._executor.submit(job.run, done)
            else:
                self._writer.write(step.file, step.buffers, step.position, job.sync, done)
            if log.followed and self._on_start is not None and log.job_outstanding:
                self._on_start(log)

    def _written(self, log: Log, job: WriteJob, failure: BaseException | None) -> None:
        try:
            if self._survived(log, failure):
                log.written(job, self._clock.now_ms())
                if not log.closed:
                    self._start(log)
                    if not job.sync:
                        self.flush(log, sealed_only=True)
                    self._space_reservation.written(log)
                    if log.is_copy and self._cache_release is not None:
                        self._cache_release.written(log)
                    self._on_progress(log)
        finally:
            self._finish_job()

    def _flushed(self, log: Log, job: FlushJob, failure: BaseException | None) -> None:
        if self._survived(log, failure):
            log.flushed(job, self._clock.now_ms())
            if not log.closed:
                # Staged records may have waited for this job. Otherwise a segment may have been filled meanwhile.
                self._start(log)
                self.flush(log, sealed_only=True)
        self._finish_job()

    def _survived(self, log: Log, failure: BaseException | None) -> bool:
        """Whether the log can still be used. A log that is being deleted may have lost its directory during the job."""
        if log.closed:
            return True
        if failure is None:
            # Another job of this directory may have failed: nothing is acknowledged any more.
            return not log.offline
        log.fail()
        fault = failure if isinstance(failure, StorageFault) else StorageFault(log.log_dir, failure)
        self._on_fault(fault)
        return False

    def _finish_job(self) -> None:
        self._jobs -= 1
        self._notify_idle()

    def _notify_idle(self) -> None:
        if self.idle and self._when_idle:
            callbacks, self._when_idle = self._when_idle, []
            for callback in callbacks:
                callback()
