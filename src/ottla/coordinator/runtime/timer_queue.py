"""The timers of all shards of a runtime: one heap, one wake-up asked for at a time.

A name has at most one entry in the heap. Putting a timer off, which every heartbeat does, or cancelling it only
notes that in the entry: when its old time comes it is put where it belongs by then, or dropped. So the heap
never outgrows the number of names, and a heartbeat costs no sorting.

Time is the monotonic clock's: a wall clock that jumps expires nobody. Concurrency: one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from heapq import heappop, heappush

from ottla.base.clock import Clock
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.runtime.timers import TimerOperation

Run = Callable[[TimerOperation], None]
"""Carries out what a timer decides; must not raise."""


class _Timer:
    """One name: what is due when (never, if `operation` is None), and where it stands in the heap."""

    __slots__ = ("due_ms", "name", "operation", "owner", "queued_ms")

    def __init__(self, owner: ShardTimers, name: Hashable) -> None:
        self.owner = owner
        self.name = name
        self.operation: TimerOperation | None = None
        self.due_ms = 0
        self.queued_ms = -1


class TimerQueue:
    """Timers in the order in which they are due."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._heap: list[tuple[int, int, _Timer]] = []
        self._count = 0
        self._wake_ms: int | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def push(self, timer: _Timer) -> None:
        timer.queued_ms = timer.due_ms
        self._count += 1  # timers due at the same time run in the order in which they were set
        heappush(self._heap, (timer.due_ms, self._count, timer))
        self._arm()

    def _arm(self) -> None:
        if self._heap and (self._wake_ms is None or self._heap[0][0] < self._wake_ms):
            self._wake_ms = self._heap[0][0]
            self._scheduler.call_at(self._wake_ms, partial(self._wake, self._wake_ms))

    def _wake(self, asked_ms: int) -> None:
        if asked_ms != self._wake_ms:
            return  # an earlier one has been asked for since, and has seen to it
        self._wake_ms = None
        now_ms = self.now_ms()
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, timer = heappop(self._heap)
            if queued_ms == timer.queued_ms:
                timer.queued_ms = -1
                due.append(timer)
        for timer in due:
            timer.owner.reached(timer, now_ms)
        self._arm()


class ShardTimers:
    """The timers of one shard (`timers.Timers`)."""

    def __init__(self, queue: TimerQueue, run: Run) -> None:
        self._queue = queue
        self._run = run
        self._timers: dict[Hashable, _Timer] = {}

    def schedule(self, name: Hashable, delay_ms: int, operation: TimerOperation) -> None:
        timer = self._timers.get(name)
        if timer is None:
            timer = self._timers[name] = _Timer(self, name)
        timer.operation = operation
        timer.due_ms = self._queue.now_ms() + max(0, delay_ms)
        if not 0 <= timer.queued_ms <= timer.due_ms:
            self._queue.push(timer)

    def cancel(self, name: Hashable) -> None:
        timer = self._timers.get(name)
        if timer is not None:
            timer.operation = None

    def is_scheduled(self, name: Hashable) -> bool:
        timer = self._timers.get(name)
        return timer is not None and timer.operation is not None

    def clear(self) -> None:
        """Forget everything; entries in the heap go when their time comes."""
        for timer in self._timers.values():
            timer.operation = None
        self._timers = {}

    def reached(self, timer: _Timer, now_ms: int) -> None:
        """The time has come at which a timer was queued: run it, unless it was put off or cancelled."""
        operation = timer.operation
        if operation is None:
            if timer.queued_ms < 0 and self._timers.get(timer.name) is timer:
                del self._timers[timer.name]
        elif timer.due_ms > now_ms:
            if timer.queued_ms < 0:
                self._queue.push(timer)
        else:
            timer.operation = None
            if self._timers.get(timer.name) is timer:
                del self._timers[timer.name]
            self._run(operation)
