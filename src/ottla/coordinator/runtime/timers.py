"""Timers of a shard: operations that are decided after a delay unless they are cancelled.

A timer has a name within its shard; scheduling a name again replaces the timer. The records of a timer's decision are
appended and replayed like those of a request.
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
