"""Where the poll thread and the workers meet: the scheduler behind one lock.

A worker hands in a result and takes its next record in one step (`trade`), so between records of a busy consumer
no thread has to be woken. Nobody waits while holding the lock, and no foreign code runs under it.

The poll thread may wait here until something holds (`wait_for`); workers look at its condition only then.
The first error that ends the consumer is kept in `failure`; everybody can see it, the poll thread raises it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ottla.base.clock import Clock
from ottla.client.parallel.assigned import Work
from ottla.client.parallel.errors import RecordFailed, Unprocessable
from ottla.client.parallel.scheduler import Scheduler, Verdict


class DeadLetterBox(Protocol):
    def put(self, work: Work, error: Exception) -> None:
        """Take a record that failed for good; returns at once."""
        ...


class Exchange:
    def __init__(self, scheduler: Scheduler, clock: Clock, dead_letters: DeadLetterBox | None) -> None:
        self.lock = threading.Lock()
        """Guards the scheduler and everything here."""
        self.scheduler = scheduler
        self.failure: BaseException | None = None
        self.halted = False
        """Set to give out no more work at once. Needs no lock, so that a signal handler may do it."""
        self.clock = clock
        self._dead_letters = dead_letters
        self._changed = threading.Condition(self.lock)
        self._awaited: Callable[[], bool] | None = None
        self._wake_workers: Callable[[], None] = lambda: None

    def attach(self, wake_workers: Callable[[], None]) -> None:
        """Workers say how they are told, under the lock, that there may be work."""
        self._wake_workers = wake_workers

    def trade(self, work: Work | None, error: BaseException | None) -> Work | None:
        """Hand in what became of a record and take the next; None when there is none now. Lock held."""
        now = self.clock.monotonic()
        if work is not None:
            self._settle(work, error, now)
            self._look()
        taken = None if self.halted or self.failure else self.scheduler.take(now)
        if taken is not None and self.scheduler.has_ready(now):
            self._wake_workers()
        return taken

    def announce(self) -> None:
        """Wake workers if there is work: new, or due again. Lock held."""
        if self.scheduler.has_ready(self.clock.monotonic()) and not self.halted and self.failure is None:
            self._wake_workers()

    def dead_lettered(self, work: Work) -> None:
        """A dead letter was acknowledged."""
        with self.lock:
            self.scheduler.finish(work, dead_lettered=True)
            self._look()
            self.announce()

    def dead_letter_failed(self, work: Work, error: BaseException) -> None:
        """A dead letter was refused: its record stays unfinished, and the consumer ends."""
        with self.lock:
            self.scheduler.abandon(work)
            self._fail(error)

    def fail(self, error: BaseException) -> None:
        """End the consumer; the first error counts."""
        with self.lock:
            self._fail(error)

    def wait_for(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds; False when it does not in time. Lock held.

        Records that are due again meanwhile are announced: the poll thread, which would, is the one who waits.
        """
        deadline = self.clock.monotonic() + timeout_s
        self._awaited = holds
        try:
            while not holds() and (left_s := deadline - self.clock.monotonic()) > 0:
                self.announce()
                retry = self.scheduler.next_retry()
                due_s = left_s if retry is None else max(0.0, retry - self.clock.monotonic())
                self._changed.wait(min(left_s, due_s))
        finally:
            self._awaited = None
        return holds()

    def _settle(self, work: Work, error: BaseException | None, now: float) -> None:
        if error is None:
            self.scheduler.finish(work)
        elif not isinstance(error, Exception):
            self.scheduler.abandon(work)
            self._fail(error)
        else:
            verdict = self.scheduler.fail(work, now, retriable=not isinstance(error, Unprocessable))
            if verdict is Verdict.DEAD_LETTER and self._dead_letters is not None:
                self._dead_letters.put(work, error)
            elif verdict is Verdict.GIVE_UP:
                failure = RecordFailed(
                    f"{work} failed {work.attempts} times, last with {error!r}. It is not committed and comes again"
                    " after a restart. Mend the handler, let it return for records it can do without, or give"
                    " Options(dead_letter_topic=...) to have such records set aside"
                )
                failure.__cause__ = error
                self._fail(failure)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self._look()

    def _look(self) -> None:
        if self._awaited is not None and self._awaited():
            self._changed.notify_all()
