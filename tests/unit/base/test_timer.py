"""A timer that waits use one after the other."""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.timer import ReusedTimer


class Loop:
    """Timers of a loop, run by `advance`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.created = 0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.created += 1
        self._timers.append((self.now + delay, callback))

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [one for one in self._timers if one[0] <= end]:
            first = min(due, key=lambda one: one[0])
            self._timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = end


def make() -> tuple[Loop, ReusedTimer, list[float]]:
    loop = Loop()
    return loop, ReusedTimer(loop.call_later, lambda: loop.now), []


def test_a_wait_ends_once_after_its_time() -> None:
    loop, timer, ended = make()
    timer.start(5.0, lambda: ended.append(loop.now))
    assert timer.active
    loop.advance(4.9)
    assert ended == []
    loop.advance(10.0)
    assert ended == [5.0]
    assert not timer.active


def test_a_cancelled_wait_does_not_end() -> None:
    loop, timer, ended = make()
    timer.start(5.0, lambda: ended.append(loop.now))
    timer.cancel()
    assert not timer.active
    loop.advance(10.0)
    assert ended == []


def test_waits_that_end_early_share_one_timer_of_the_loop() -> None:
    loop, timer, ended = make()
    for _ in range(100):
        timer.start(5.0, lambda: ended.append(loop.now)).cancel()
        loop.advance(0.01)
    assert loop.created == 1


def test_a_later_wait_ends_at_its_own_time() -> None:
    loop, timer, ended = make()
    timer.start(5.0, lambda: ended.append(-1.0)).cancel()
    loop.advance(3.0)
    timer.start(5.0, lambda: ended.append(loop.now))
    loop.advance(4.9)
    assert ended == []
    loop.advance(10.0)
    assert ended == [8.0]


def test_a_callback_can_start_the_next_wait() -> None:
    loop, timer, ended = make()

    def again() -> None:
        ended.append(loop.now)
        timer.start(1.0, again)

    timer.start(1.0, again)
    loop.advance(3.5)
    assert ended == [1.0, 2.0, 3.0]


def test_a_wait_that_was_replaced_does_not_cancel_the_next_one() -> None:
    loop, timer, ended = make()
    replaced = timer.start(5.0, lambda: ended.append(-1.0))
    timer.start(6.0, lambda: ended.append(loop.now))
    replaced.cancel()
    loop.advance(10.0)
    assert ended == [6.0]
