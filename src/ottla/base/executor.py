"""Blocking work beside the event loop: a small pool of threads, with results delivered on the loop.

`Executor` is the port that the storage layer uses. `ThreadExecutor` runs work in threads and calls
`done` on the loop; `ottla.testing.executor` has one that runs work at once or when stepped.

Completions are collected: the first of a burst wakes the loop and delivers all of them, because waking the loop
costs more than most of what the threads do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Protocol

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class Executor(Protocol):
    def submit(self, work: Work, done: Done) -> None:
        """Run `work` off the loop, then call `done` on it with what `work` raised, or None."""
        ...


class ThreadExecutor:
    """A fixed number of daemon threads; `wake` must schedule a callable on the loop from any thread."""

    def __init__(
        self, wake: Callable[[Callable[[], None]], object], threads: int, name: str = "disk"
    ) -> None:
        self._wake = wake
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._finished: deque[tuple[Done, BaseException | None]] = deque()
        self._woken = False
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work, done: Done) -> None:
        self._queue.put((work, done))

    def close(self) -> None:
        """Let the threads finish what was submitted, and end them."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            work, done = task
            failure: BaseException | None = None
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - passed to the loop, which handles it
                failure = error
            self._add([(done, failure)])

    def _add(self, finished: Iterable[tuple[Done, BaseException | None]]) -> None:
        with self._lock:
            self._finished.extend(finished)
            must_wake = not self._woken
            self._woken = True
        if must_wake:
            self._wake(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            self._woken = False
            ready, self._finished = self._finished, deque()
        try:
            while ready:
                done, failure = ready.popleft()
                done(failure)
        finally:
            if ready:  # after an exception of one callback: the others are not lost
                self._add(ready)
