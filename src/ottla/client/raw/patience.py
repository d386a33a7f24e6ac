"""How long one call tries again, and how it waits in between: longer each time, never past the deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.client.raw.errors import ClientError, ClusterUnreachable, ConnectionLost, TimedOut
from ottla.client.raw.settings import ClientSettings

Pause = Callable[[float], object]


def pause(seconds: float) -> None:
    """Let time pass on the calling thread."""
    threading.Event().wait(seconds)


class Patience:
    """Of one call; `what` names it in the error."""

    def __init__(self, what: str, settings: ClientSettings, clock: Clock, wait: Pause = pause) -> None:
        self._what = what
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._next_s = settings.retry_backoff_ms / 1000
        self._began = clock.monotonic()

    @property
    def spent_s(self) -> float:
        return self._clock.monotonic() - self._began

    def rest(self, seconds: float) -> None:
        """Wait as a broker has asked; the time allowed does not run meanwhile."""
        began = self._clock.monotonic()
        self._wait(seconds)
        self._began += self._clock.monotonic() - began

    def again(self, why: ClientError) -> None:
        """Wait for the next attempt; raises TimedOut when there is no time for one."""
        allowed_s = self._settings.api_timeout_ms / 1000
        if self.spent_s + self._next_s > allowed_s:
            kind = ClusterUnreachable if isinstance(why, ConnectionLost) else TimedOut
            raise kind(f"{self._what} did not work within {allowed_s:g} s: {why}") from why
        self._wait(self._next_s)
        self._next_s = min(self._next_s * 2, self._settings.retry_backoff_max_ms / 1000)
