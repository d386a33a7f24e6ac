"""Events in virtual time, and the error of a broken invariant: the base of the simulations of pure cores."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Violation(AssertionError):
    """An invariant does not hold."""


class EventQueue:
    """Runs events in the order of their times; events of the same time in the order in which they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        """Virtual time in milliseconds."""
        self.events = 0
        """How many events have been run."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._added = 0

    def later(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Run an event after a delay."""
        self._added += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._added, call))

    def run_until(self, end_ms: float) -> None:
        """Run all events up to this time, those included that are added meanwhile."""
        queue = self._queue
        while queue and queue[0][0] <= end_ms:
            self.now, _, call = heapq.heappop(queue)
            self.events += 1
            call()
        self.now = end_ms
