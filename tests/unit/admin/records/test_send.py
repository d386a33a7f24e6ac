"""The pace of records, and the errors that are kept."""

from __future__ import annotations

import threading
from typing import Any

from ottla.admin.records.send import ERRORS_KEPT, Pacer, Sent


class Waits:
    """A clock, and an event that moves it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(round(seconds, 6))
        self.now += seconds
        return False


def test_records_are_due_at_their_time() -> None:
    time: Any = Waits()
    pacer = Pacer(10, time, time)
    for _ in range(3):
        pacer.wait()
    assert time.waits == [0.1, 0.1]
    time.now += 0.35
    for _ in range(4):
        pacer.wait()
    # Records that are late are sent at once; the rate applies to all of them together.
    assert time.waits == [0.1, 0.1, 0.05]


def test_a_wait_ends_when_it_is_stopped() -> None:
    stop = threading.Event()
    stop.set()
    time: Any = Waits()
    pacer = Pacer(0.001, time, stop)
    for _ in range(3):
        pacer.wait()


def test_the_first_errors_are_kept() -> None:
    sent = Sent()
    for number in range(ERRORS_KEPT + 5):
        sent.fail(number, "too large")
    assert sent.failed == ERRORS_KEPT + 5
    assert sent.errors[-1] == (ERRORS_KEPT - 1, "too large")
