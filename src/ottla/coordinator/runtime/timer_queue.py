"""The timers of all shards of a runtime: one heap, and one scheduled wake-up at a time.

A name has at most one entry in the heap. Postponing a timer, which every heartbeat does, or cancelling it only
changes the entry. When the old time is reached, the entry is moved to its new time or dropped. So the heap never has
more entries than there are names, and a heartbeat does not sort.

The timers use the monotonic clock, so a jump of the wall clock does not expire sessions. Concurrency: one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from heapq import heappop, heappush

from ottla.base.clock import Clock
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.runtime.timers import TimerOperation

Run = Callable[[Hashable, TimerOperation], None]
"""Applies the decision of the timer of that name; must not raise."""


class _Timer:
    """One name: its operation (None: cancelled), when it is due, and the time of its entry in the heap."""

    __slots__ = ("due_ms", "name", "operation", "owner", "queued_ms")

    def __init__(self, owner: ShardTimers, name: Hashable) -> None:
        self.owner = owner
        self.name = name
        self.operation: TimerOperation | None = None
        self.due_ms = 0
        self.queued_ms = -1


class TimerQueue:
    """The heap of timers, ordered by due time."""

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

    def _wake(self, scheduled_ms: int) -> None:
        if scheduled_ms != self._wake_ms:
            return  # an earlier wake-up was scheduled since and has handled the timers
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
        """Cancel all timers; their entries in the heap are dropped when their time is reached."""
        for timer in self._timers.values():
            timer.operation = None
        self._timers = {}

    def reached(self, timer: _Timer, now_ms: int) -> None:
        """Handle a timer whose entry is due: run it, unless it was postponed or cancelled."""
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
            self._run(timer.name, operation)
