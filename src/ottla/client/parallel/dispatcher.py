"""Dispatcher of records to workers: the scheduler and the lock that the poll thread and the workers share.

A worker reports a result and takes its next record in one step (`next_work`), so that a busy consumer wakes no
thread between records. No thread blocks while it holds the lock, and no code of the user runs under it.

The poll thread can wait for a condition (`wait_for`), which workers check after each result. `failure` is the first
error that ends the consumer; the poll thread raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ottla.base.clock import Clock
from ottla.client.parallel.assignment import Work
from ottla.client.parallel.errors import RecordFailed, Unprocessable
from ottla.client.parallel.scheduler import FailureAction, Scheduler


class DeadLetterQueue(Protocol):
    def put(self, work: Work, error: Exception) -> None:
        """Queue a record that failed permanently; return at once."""
        ...


class Dispatcher:
    def __init__(self, scheduler: Scheduler, clock: Clock, dead_letters: DeadLetterQueue | None) -> None:
        self.lock = threading.Lock()
        """Protects the scheduler and all fields."""
        self.scheduler = scheduler
        self.failure: BaseException | None = None
        self.halted = False
        """Set to stop giving out records. No lock is needed, so that a signal handler can set it."""
        self.clock = clock
        self._dead_letters = dead_letters
        self._changed = threading.Condition(self.lock)
        self._awaited: Callable[[], bool] | None = None
        self._wake_workers: Callable[[], None] = lambda: None

    def attach(self, wake_workers: Callable[[], None]) -> None:
        """Set the function that wakes workers; it is called under the lock."""
        self._wake_workers = wake_workers

    def next_work(self, work: Work | None, error: BaseException | None) -> Work | None:
        """Report the result of a record and take the next one; None if none is ready. The caller holds the lock."""
        now = self.clock.monotonic()
        if work is not None:
            self._complete(work, error, now)
            self._check_awaited()
        taken = None if self.halted or self.failure else self.scheduler.take(now)
        if taken is not None and self.scheduler.has_ready(now):
            self._wake_workers()
        return taken

    def wake_workers_if_ready(self) -> None:
        """Wake workers if a record is ready. The caller holds the lock."""
        if self.scheduler.has_ready(self.clock.monotonic()) and not self.halted and self.failure is None:
            self._wake_workers()

    def dead_lettered(self, work: Work) -> None:
        """Complete a record whose dead letter was acknowledged."""
        with self.lock:
            self.scheduler.finish(work, dead_lettered=True)
            self._check_awaited()
            self.wake_workers_if_ready()

    def dead_letter_failed(self, work: Work, error: BaseException) -> None:
        """End the consumer because a dead letter was not accepted; its record stays unfinished."""
        with self.lock:
            self.scheduler.abandon(work)
            self._fail(error)

    def fail(self, error: BaseException) -> None:
        """End the consumer. Only the first error is kept."""
        with self.lock:
            self._fail(error)

    def wait_for(self, is_met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; False if it is not met in time. The caller holds the lock.

        Workers are woken for retries that become due meanwhile, because the poll thread, which usually does it, waits.
        """
        deadline = self.clock.monotonic() + timeout_s
        self._awaited = is_met
        try:
            while not is_met() and (left_s := deadline - self.clock.monotonic()) > 0:
                self.wake_workers_if_ready()
                retry = self.scheduler.next_retry()
                due_s = left_s if retry is None else max(0.0, retry - self.clock.monotonic())
                self._changed.wait(min(left_s, due_s))
        finally:
            self._awaited = None
        return is_met()

    def _complete(self, work: Work, error: BaseException | None, now: float) -> None:
        if error is None:
            self.scheduler.finish(work)
        elif not isinstance(error, Exception):
            self.scheduler.abandon(work)
            self._fail(error)
        else:
            action = self.scheduler.fail(work, now, retriable=not isinstance(error, Unprocessable))
            if action is FailureAction.DEAD_LETTER and self._dead_letters is not None:
                self._dead_letters.put(work, error)
            elif action is FailureAction.GIVE_UP:
                failure = RecordFailed(
                    f"{work} failed {work.attempts} times, last with {error!r}. It is not committed and is delivered"
                    " again after a restart. Correct the handler, let it return for records that it can skip, or set"
                    " Options(dead_letter_topic=...) to move such records to another topic"
                )
                failure.__cause__ = error
                self._fail(failure)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self._check_awaited()

    def _check_awaited(self) -> None:
        if self._awaited is not None and self._awaited():
            self._changed.notify_all()
