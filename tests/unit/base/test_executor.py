from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from ottla.base.executor import ThreadExecutor
from ottla.testing.executor import InlineExecutor


class Loop:
    """The loop's side: callbacks arrive from threads and run where the test says."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.wakes = 0

    def wake(self, callback: Callable[[], None]) -> None:
        self.wakes += 1
        self.calls.put(callback)

    def run_until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.calls.get(timeout=10)()


def test_results_come_back_to_the_loop() -> None:
    loop = Loop()
    executor = ThreadExecutor(loop.wake, 3)
    threads: set[int] = set()
    results: list[BaseException | None] = []
    for _ in range(20):
        executor.submit(lambda: threads.add(threading.get_ident()), results.append)
    loop.run_until(lambda: len(results) == 20)
    executor.close()
    assert results == [None] * 20
    assert threading.get_ident() not in threads


def test_what_work_raises_is_handed_over() -> None:
    loop = Loop()
    executor = ThreadExecutor(loop.wake, 1)
    results: list[BaseException | None] = []
    executor.submit(lambda: [0][len(results) + 1], results.append)
    executor.submit(lambda: None, results.append)
    loop.run_until(lambda: len(results) == 2)
    executor.close()
    assert isinstance(results[0], IndexError)
    assert results[1] is None


def test_an_exception_of_one_callback_does_not_lose_the_others() -> None:
    loop = Loop()
    executor = ThreadExecutor(loop.wake, 1)
    results: list[BaseException | None] = []

    def fail(_: BaseException | None) -> None:
        raise ValueError("broken")

    executor.submit(lambda: None, fail)
    for _ in range(3):
        executor.submit(lambda: None, results.append)
    executor.close()
    with pytest.raises(ValueError, match="broken"):
        loop.calls.get(timeout=10)()
    assert results == []
    loop.run_until(lambda: len(results) == 3)
    assert loop.wakes == 2


def test_a_burst_of_completions_wakes_the_loop_once() -> None:
    loop = Loop()
    executor = ThreadExecutor(loop.wake, 1)
    results: list[BaseException | None] = []
    for _ in range(50):
        executor.submit(lambda: None, results.append)
    executor.close()
    assert results == []
    assert loop.wakes == 1
    loop.run_until(lambda: len(results) == 50)


def test_closing_finishes_what_was_submitted() -> None:
    loop = Loop()
    executor = ThreadExecutor(loop.wake, 2)
    seen: list[int] = []
    for number in range(10):
        executor.submit(lambda number=number: seen.append(number), lambda _: None)  # type: ignore[misc]
    executor.close()
    assert sorted(seen) == list(range(10))


def test_inline_work_runs_at_once_or_in_steps() -> None:
    results: list[BaseException | None] = []
    InlineExecutor().submit(lambda: None, results.append)
    assert results == [None]
    stepped = InlineExecutor(stepped=True)
    stepped.submit(lambda: None, results.append)
    stepped.submit(lambda: {}[1], results.append)  # type: ignore[index]
    assert (stepped.waiting, len(results)) == (2, 1)
    assert stepped.step()
    assert results == [None, None]
    stepped.run_all()
    assert isinstance(results[-1], KeyError)
    assert not stepped.step()
