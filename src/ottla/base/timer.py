"""The handle of a timer, and a timer for waits that follow each other and nearly always end early.

A timer of an event loop costs several microseconds to create, and as many to cancel. A `ReusedTimer` creates one when
none runs, and lets it run on when a wait ends. If it ends before the deadline of the current wait, it is created again
for the rest of the time.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A timer that has been started."""

    def cancel(self) -> None:
        """Do not call back."""
        ...


class Wait:
    """One wait of a `ReusedTimer`."""

    __slots__ = ("_timer", "callback", "deadline")

    def __init__(self, timer: ReusedTimer, callback: Callable[[], None], deadline: float) -> None:
        self._timer = timer
        self.callback = callback
        self.deadline = deadline

    def cancel(self) -> None:
        self._timer.end(self)


class ReusedTimer:
    """The timer of one wait at a time."""

    __slots__ = ("_call_later", "_now", "_running", "_wait")

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], now: Callable[[], float]
    ) -> None:
        self._call_later = call_later
        self._now = now
        self._wait: Wait | None = None
        self._running = False

    @property
    def active(self) -> bool:
        """Whether a wait has been started that has neither ended nor been cancelled."""
        return self._wait is not None

    def start(self, seconds: float, callback: Callable[[], None]) -> Wait:
        """Call `callback` once after `seconds`, unless the wait is cancelled or another one is started before."""
        wait = self._wait = Wait(self, callback, self._now() + seconds)
        if not self._running:
            self._running = True
            self._call_later(seconds, self._ended)
        return wait

    def cancel(self) -> None:
        """Cancel the current wait, if there is one."""
        self._wait = None

    def end(self, wait: Wait) -> None:
        """Cancel this wait, if it is the current one."""
        if self._wait is wait:
            self._wait = None

    def _ended(self) -> None:
        self._running = False
        wait = self._wait
        if wait is None:
            return
        left = wait.deadline - self._now()
        if left > 0:
            self._running = True
            self._call_later(left, self._ended)
        else:
            self._wait = None
            wait.callback()
