"""The rate at which a client uses something, over samples of a fixed length, and the time for which it must wait.

A sample covers `window_ms` from its first value. One sample more than configured is kept, because the oldest one
overlaps the measured time. A sample without a value during the whole measured time is empty and starts anew.

The rate is the sum of all samples divided by the time since the start of the oldest one, but at least by all windows
except the current one: a first value is not measured as a burst. This is Kafka's arithmetic, so that clients see equal
throttle times.

Times are milliseconds of one clock that does not decrease.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Measured(NamedTuple):
    """A rate per second, and the time over which it was measured."""

    rate: float
    window_ms: int


class Rate:
    """The values of one client in `samples` windows."""

    __slots__ = ("_count", "_current", "_last", "_start", "_value", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._count = samples
        self._window_ms = window_ms
        self._current = 0
        # One entry for each sample: its start, the time of its last value, its sum.
        self._start: list[int] = []
        self._last: list[int] = []
        self._value: list[float] = []

    def record(self, value: float, now_ms: int) -> None:
        """Add a value to the current sample; a negative one takes back an earlier one."""
        if not self._start:
            self._add(now_ms)
        elif now_ms - self._start[self._current] >= self._window_ms:
            self._current = (self._current + 1) % (self._count + 1)
            if self._current == len(self._start):
                self._add(now_ms)
            else:
                self._restart(self._current, now_ms)
        self._value[self._current] += value
        self._last[self._current] = now_ms

    def measure(self, now_ms: int) -> Measured:
        """The rate now."""
        expired = now_ms - self._count * self._window_ms
        for index, last in enumerate(self._last):
            if last <= expired:
                self._restart(index, now_ms)
        window_ms = self._measured_ms(now_ms - min(self._start, default=now_ms))
        return Measured(sum(self._value) * 1000 / window_ms, window_ms)

    def _measured_ms(self, elapsed: int) -> int:
        missing = self._count - 1 - elapsed // self._window_ms
        if missing > 0:
            elapsed += missing * self._window_ms
        return max(elapsed, 1)

    def _add(self, now_ms: int) -> None:
        self._start.append(now_ms)
        self._last.append(now_ms)
        self._value.append(0.0)

    def _restart(self, index: int, now_ms: int) -> None:
        self._start[index] = self._last[index] = now_ms
        self._value[index] = 0.0


class SimpleRate(Rate):
    """A rate since the first value, over at least one window: Kafka's arithmetic for replication."""

    __slots__ = ()

    def _measured_ms(self, elapsed: int) -> int:
        return max(elapsed, self._window_ms)


def throttle_ms(measured: Measured, bound: float) -> int:
    """The time after which the rate is back at its bound, if nothing is used meanwhile; 0 if it is not above it."""
    if measured.rate <= bound:
        return 0
    return math.floor((measured.rate - bound) / bound * measured.window_ms + 0.5)
