"""Runs the same disk work for many logs in the executor, a few chunks of them at a time.

Creating, opening, closing or deleting thousands of logs takes seconds. The event loop stays free: a chunk of items is
one job, at most `width` jobs are submitted at a time so that the writes of other logs do not queue behind them, and the
results of a chunk are handled on the loop before the next chunk is submitted.

Concurrency: `run` and all callbacks belong to the event loop; `work` runs in a worker thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from ottla.base.executor import Executor
from ottla.base.promise import Promise

T = TypeVar("T")
R = TypeVar("R")

CHUNK_ITEMS: Final = 16
WIDTH: Final = 2
"""Of the executor's four threads the others remain for writes."""


class Bulk(Generic[T, R]):
    """One pass over many items; `done` is kept when all of them are handled."""

    def __init__(
        self,
        executor: Executor,
        items: Iterable[T],
        work: Callable[[T], R],
        handle: Callable[[T, R | Exception], None],
    ) -> None:
        self.done: Promise[None] = Promise()
        self._executor = executor
        self._items: Iterator[T] = iter(items)
        self._work = work
        self._handle = handle
        self._running = 0

    def start(self) -> Promise[None]:
        for _ in range(WIDTH):
            self._submit()
        self._settle_if_finished()
        return self.done

    def _submit(self) -> None:
        items = list(islice(self._items, CHUNK_ITEMS))
        if not items:
            return
        results: list[R | Exception] = []
        self._running += 1

        def run() -> None:
            for item in items:
                try:
                    results.append(self._work(item))
                except Exception as error:  # noqa: BLE001 - handled on the loop, for its own item
                    results.append(error)

        def finished(failure: BaseException | None) -> None:
            self._running -= 1
            try:
                for item, result in zip(items, results, strict=failure is None):
                    self._handle(item, result)
            finally:
                self._submit()
                self._settle_if_finished()

        self._executor.submit(run, finished)

    def _settle_if_finished(self) -> None:
        if self._running == 0 and not self.done.done:
            self.done.keep(None)


def run_bulk(
    executor: Executor,
    items: Iterable[T],
    work: Callable[[T], R],
    handle: Callable[[T, R | Exception], None],
) -> Promise[None]:
    """Run `work(item)` for each item in the executor and `handle(item, result or error)` on the loop."""
    return Bulk(executor, items, work, handle).start()


def run_one(
    executor: Executor, work: Callable[[], R], handle: Callable[[R | Exception], None]
) -> Promise[None]:
    """Run one piece of disk work in the executor; `handle` gets its result or error on the loop."""
    return run_bulk(executor, (None,), lambda _: work(), lambda _, result: handle(result))


def in_order(steps: Iterable[Callable[[], Promise[None]]]) -> Promise[None]:
    """Start each step when the one before has been kept. The first error ends it."""
    finished: Promise[None] = Promise()
    left = iter(steps)

    def go_on(_: None, error: BaseException | None) -> None:
        if error is not None:
            finished.fail(error)
            return
        for step in left:
            promise = step()
            if not promise.done or promise.error is not None:
                promise.when_done(go_on)
                return
        finished.keep(None)

    go_on(None, None)
    return finished


class Queue:
    """Asynchronous steps of which each starts when all before it are done."""

    def __init__(self) -> None:
        self._last: Promise[None] = Promise.kept(None)

    def add(self, step: Callable[[], Promise[None]]) -> Promise[None]:
        finished: Promise[None] = Promise()

        def settle(_: None, error: BaseException | None) -> None:
            if error is None:
                finished.keep(None)
            else:
                finished.fail(error)

        def start(_: None, __: BaseException | None) -> None:
            try:
                promise = step()
            except Exception as error:  # noqa: BLE001 - the steps behind this one continue
                finished.fail(error)
            else:
                promise.when_done(settle)

        before, self._last = self._last, finished
        before.when_done(start)
        return finished


def settled_anyhow(promise: Promise[None]) -> Promise[None]:
    """Kept when `promise` is settled, with or without an error."""
    finished: Promise[None] = Promise()
    promise.when_done(lambda _, __: finished.keep(None))
    return finished


def counted(promise: Promise[None], count: Callable[[], int]) -> Promise[int]:
    """A promise of the count at the time when `promise` is kept."""
    result: Promise[int] = Promise()

    def settle(_: None, error: BaseException | None) -> None:
        if error is None:
            result.keep(count())
        else:
            result.fail(error)

    promise.when_done(settle)
    return result
