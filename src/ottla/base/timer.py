"""A timer for waits that follow each other and nearly always end early.

A timer of an event loop costs several microseconds to create, and as many to cancel. A `ReusedTimer` creates one when
none runs, and lets it run on when a wait ends. If it ends before the deadline of the current wait, it is created again
for the rest of the time.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Cancellable(Protocol):
    """A timer that has been started."""

    def cancel(self) -> None:
        """Do not call back."""
        ...


class ReusedTimer:
    """The timer of one wait at a time."""

    __slots__ = ("_call_later", "_callback", "_deadline", "_now", "_running")

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], now: Callable[[], float]
    ) -> None:
        self._call_later = call_later
        self._now = now
        self._callback: Callable[[], None] | None = None
        self._deadline = 0.0
        self._running = False

    @property
    def active(self) -> bool:
        """Whether a wait has been started that has neither ended nor been cancelled."""
        return self._callback is not None

    def start(self, seconds: float, callback: Callable[[], None]) -> Cancellable:
        """Call `callback` once after `seconds`, unless the wait is cancelled or another one is started before."""
        self._callback = callback
        self._deadline = self._now() + seconds
        if not self._running:
            self._running = True
            self._call_later(seconds, self._ended)
        return self

    def cancel(self) -> None:
        self._callback = None

    def _ended(self) -> None:
        self._running = False
        callback = self._callback
        if callback is None:
            return
        left = self._deadline - self._now()
        if left > 0:
            self._running = True
            self._call_later(left, self._ended)
        else:
            self._callback = None
            callback()
