"""Timers of a shard: what is to be decided when some time has passed, unless it was cancelled before.

A timer has a name within its shard; scheduling a name again replaces what was there. What it decides goes the
way of every decision, so its records are appended and replayed like those of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from ottla.coordinator.runtime.decision import Decision

TimerOperation = Callable[[], Decision[None]]


class Timers(Protocol):
    """The timers of one shard."""

    def schedule(self, name: Hashable, delay_ms: int, operation: TimerOperation) -> None: ...

    def cancel(self, name: Hashable) -> None: ...

    def is_scheduled(self, name: Hashable) -> bool: ...
