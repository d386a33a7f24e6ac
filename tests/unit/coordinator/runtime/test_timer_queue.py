"""Timers: order, postponement and cancellation."""

from __future__ import annotations

from collections.abc import Hashable

from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.timer_queue import ShardTimers, TimerQueue
from ottla.coordinator.runtime.timers import TimerOperation
from tests.support.coordination import FakeClock
from tests.support.shards import FakeScheduler


class Timing:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.queue = TimerQueue(self.clock, self.scheduler)
        self.timers = ShardTimers(self.queue, self._run)
        self.fired: list[tuple[str, int]] = []
        self.start = self.clock.now

    def _run(self, name: Hashable, operation: TimerOperation) -> None:
        operation()

    def set(self, name: str, delay_ms: int) -> None:
        self.timers.schedule(name, delay_ms, lambda: self._fire(name))

    def _fire(self, name: str) -> Decision[None]:
        self.fired.append((name, self.clock.now - self.start))
        return Decision(None)


def test_timers_fire_in_order() -> None:
    timing = Timing()
    timing.set("b", 20)
    timing.set("a", 10)
    timing.set("c", 20)
    timing.scheduler.advance(30)
    assert timing.fired == [("a", 10), ("b", 20), ("c", 20)]
    assert len(timing.queue) == 0


def test_a_postponed_timer_fires_once_at_its_new_time() -> None:
    timing = Timing()
    timing.set("a", 10)
    timing.scheduler.advance(5)
    timing.set("a", 10)
    timing.scheduler.advance(20)
    assert timing.fired == [("a", 15)]
    assert not timing.timers.is_scheduled("a")


def test_an_advanced_timer_fires_once_at_its_new_time() -> None:
    timing = Timing()
    timing.set("a", 100)
    timing.set("a", 10)
    timing.scheduler.advance(200)
    assert timing.fired == [("a", 10)]


def test_a_cancelled_timer_does_not_fire() -> None:
    timing = Timing()
    timing.set("a", 10)
    assert timing.timers.is_scheduled("a")
    timing.timers.cancel("a")
    assert not timing.timers.is_scheduled("a")
    timing.timers.cancel("unknown")
    timing.scheduler.advance(20)
    assert timing.fired == []
    timing.set("a", 10)
    timing.scheduler.advance(20)
    assert timing.fired == [("a", 30)]


def test_a_timer_may_set_itself_and_cancel_others() -> None:
    timing = Timing()

    def again() -> Decision[None]:
        timing.timers.cancel("b")
        timing.set("a", 5)
        return timing._fire("again")

    timing.timers.schedule("a", 10, again)
    timing.set("b", 10)
    timing.scheduler.advance(30)
    assert timing.fired == [("again", 10), ("a", 15)]


def test_a_due_timer_that_another_timer_postpones_waits() -> None:
    timing = Timing()
    timing.timers.schedule("a", 10, lambda: (timing.set("b", 7), timing._fire("a"))[1])
    timing.set("b", 10)
    timing.scheduler.advance(30)
    assert timing.fired == [("a", 10), ("b", 17)]


def test_heartbeats_do_not_grow_the_heap() -> None:
    timing = Timing()
    for _ in range(1000):
        timing.set("session", 45_000)
        timing.timers.cancel("session")
        timing.set("session", 45_000)
        timing.scheduler.advance(3)
    assert len(timing.queue) == 1
    assert timing.scheduler.asked < 5


def test_no_timer_fires_after_clear() -> None:
    timing = Timing()
    timing.set("a", 10)
    timing.timers.clear()
    assert not timing.timers.is_scheduled("a")
    timing.set("a", 15)
    timing.scheduler.advance(30)
    assert timing.fired == [("a", 15)]


def test_an_early_wake_up_is_scheduled_again() -> None:
    timing = Timing()
    timing.set("a", 10)
    timing.clock.now += 9
    timing.scheduler._timed[0][2]()
    assert timing.fired == []
    timing.scheduler.advance(1)
    assert timing.fired == [("a", 10)]
