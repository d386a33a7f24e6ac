"""Workers that run the handler: threads for a function, tasks of an event loop for a coroutine function.

Both use the dispatcher only. A thread without work waits on a condition, a task without work ends. Threads are
daemons: a handler that blocks does not prevent the program from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

from confluent_kafka import Message

from ottla.client.parallel.assignment import Work
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.errors import ParallelConsumerError

Handler = Callable[[Message], object]
AsyncHandler = Callable[[Message], Awaitable[object]]

_RECORDS_PER_TASK = 32


class Workers(Protocol):
    def start(self) -> None: ...

    def end(self, timeout_s: float) -> bool:
        """Stop taking records; return whether all running handlers ended in time."""
        ...


class ThreadWorkers:
    def __init__(self, dispatcher: Dispatcher, handler: Handler, number: int) -> None:
        self._dispatcher = dispatcher
        self._handler = handler
        self._ready = threading.Condition(dispatcher.lock)
        self._idle = 0
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, name=f"parallel-consumer-{index}", daemon=True)
            for index in range(number)
        ]

    def start(self) -> None:
        self._dispatcher.attach(self._wake)
        for thread in self._threads:
            thread.start()

    def end(self, timeout_s: float) -> bool:
        with self._dispatcher.lock:
            self._ended = True
            self._ready.notify_all()
        deadline = self._dispatcher.clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._dispatcher.clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _wake(self) -> None:
        # One at a time: a worker that takes a record wakes the next one if more are ready.
        if self._idle:
            self._ready.notify()

    def _run(self) -> None:
        work: Work | None = None
        error: BaseException | None = None
        try:
            while (work := self._next(work, error)) is not None:
                error = None
                try:
                    self._handler(work.message)
                except BaseException as raised:  # noqa: BLE001 - the dispatcher decides
                    error = raised
        except BaseException as bug:  # noqa: BLE001 - report errors of the thread
            self._dispatcher.fail(bug)

    def _next(self, work: Work | None, error: BaseException | None) -> Work | None:
        with self._dispatcher.lock:
            taken = self._dispatcher.next_work(work, error)
            while taken is None and not self._ended:
                self._idle += 1
                self._ready.wait()
                self._idle -= 1
                taken = self._dispatcher.next_work(None, None)
            return taken


class TaskWorkers:
    """Tasks on the event loop of the user, or on a new loop in a separate thread."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        handler: AsyncHandler,
        number: int,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._handler = handler
        self._number = number
        self._given_loop = loop
        self._loop: asyncio.AbstractEventLoop
        self._own_thread: threading.Thread | None = None
        self._all_ended = threading.Condition(dispatcher.lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._active = 0
        self._woken = False
        self._ended = False

    def start(self) -> None:
        self._loop = self._given_loop or asyncio.new_event_loop()
        self._dispatcher.attach(self._wake)
        if self._given_loop is None:
            self._own_thread = threading.Thread(
                target=self._loop.run_forever, name="parallel-consumer-loop", daemon=True
            )
            self._own_thread.start()

    def end(self, timeout_s: float) -> bool:
        with self._dispatcher.lock:
            self._ended = True
            in_time = self._all_ended.wait_for(lambda: self._active == 0, timeout_s)
        if not self._loop.is_closed():
            cancelled = threading.Event()
            self._loop.call_soon_threadsafe(self._cancel, cancelled)
            if self._own_thread is not None:
                cancelled.wait(timeout_s)
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._own_thread.join(timeout_s)
                if not self._own_thread.is_alive():
                    self._loop.close()
        return in_time

    def _cancel(self, done: threading.Event) -> None:
        """On the loop: cancel the tasks that did not end in time; their records are not finished."""
        for task in self._tasks:
            task.cancel()
        waiting = asyncio.gather(*self._tasks, return_exceptions=True)
        waiting.add_done_callback(lambda _: done.set())

    def _wake(self) -> None:
        if not self._woken and self._active < self._number and not self._ended:
            self._woken = True
            self._loop.call_soon_threadsafe(self._spawn)

    def _spawn(self) -> None:
        """On the loop: create a task for each record that can be taken."""
        found: list[Work] = []
        with self._dispatcher.lock:
            while self._active < self._number and not self._ended:
                work = self._dispatcher.next_work(None, None)
                if work is None:
                    break
                self._active += 1
                found.append(work)
            self._woken = False
        for work in found:
            self._begin(work)

    def _begin(self, work: Work) -> None:
        task = self._loop.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, first: Work) -> None:
        work: Work | None = first
        try:
            for _ in range(_RECORDS_PER_TASK):
                if work is None:
                    return
                work = self._next(work, await self._handle(work))
            # A new task lets the loop run other callbacks even if the handler never waits.
            if work is not None:
                self._begin(work)
        except BaseException as bug:  # noqa: BLE001 - report errors of the task
            self._dispatcher.fail(bug)

    async def _handle(self, work: Work) -> BaseException | None:
        try:
            await self._handler(work.message)
        except asyncio.CancelledError:
            return ParallelConsumerError("the handler was cancelled")
        except BaseException as raised:  # noqa: BLE001 - the dispatcher decides
            return raised
        return None

    def _next(self, work: Work, error: BaseException | None) -> Work | None:
        with self._dispatcher.lock:
            taken = self._dispatcher.next_work(work, error)
            if taken is None:
                self._active -= 1
                if self._ended and not self._active:
                    self._all_ended.notify_all()
            return taken
