"""Retries of one call: exponential back-off up to a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.client.raw.errors import ClientError, ClusterUnreachable, ConnectionLost, TimedOut
from ottla.client.raw.settings import ClientSettings

Sleep = Callable[[float], object]
OnUnreachable = Callable[[str], object]
"""Called once per call, with a text, when no broker could be reached for a while."""
NOTICE_S = 1.0


def sleep(seconds: float) -> None:
    """Block the calling thread."""
    threading.Event().wait(seconds)


class Retry:
    """The attempts of one call. `what` describes the call in error messages."""

    def __init__(
        self,
        what: str,
        settings: ClientSettings,
        clock: Clock,
        wait: Sleep = sleep,
        on_unreachable: OnUnreachable | None = None,
    ) -> None:
        self._what = what
        self._settings = settings
        self._clock = clock
        self._wait = wait
        self._on_unreachable = on_unreachable
        self._next_s = settings.retry_backoff_ms / 1000
        self._started = clock.monotonic()

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._started

    def pause(self, seconds: float) -> None:
        """Wait as requested by a broker. This time does not count towards the deadline."""
        started = self._clock.monotonic()
        self._wait(seconds)
        self._started += self._clock.monotonic() - started

    def backoff(self, why: ClientError) -> None:
        """Wait before the next attempt. Raise TimedOut if the deadline would pass."""
        allowed_s = self._settings.api_timeout_ms / 1000
        if self.elapsed_s + self._next_s > allowed_s:
            kind = ClusterUnreachable if isinstance(why, ConnectionLost) else TimedOut
            raise kind(f"{self._what} did not succeed within {allowed_s:g} s: {why}") from why
        if (
            self._on_unreachable is not None
            and isinstance(why, ConnectionLost)
            and self.elapsed_s >= NOTICE_S
        ):
            self._on_unreachable(f"{why}; trying again for {allowed_s:g} s")
            self._on_unreachable = None
        self._wait(self._next_s)
        self._next_s = min(self._next_s * 2, self._settings.retry_backoff_max_ms / 1000)
