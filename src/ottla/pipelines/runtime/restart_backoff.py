"""The time of the next start of a failed flow: the delay doubles with each consecutive failure. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
_DOUBLINGS_MAX: Final = 10
RESET_AFTER_S: Final = 300.0
"""After so long a time with finished batches, the next failure counts as the first one."""
RESTARTS_ONCE: Final = 3
"""The default limit of consecutive restarts in a triggered run."""


@dataclass
class Backoff:
    """The failures of one flow. With `restarts_max` None there is no limit."""

    restarts_max: int | None = None
    failures: int = 0
    total: int = 0
    _started_s: float = field(default=0.0, repr=False)
    _has_batch: bool = field(default=False, repr=False)

    def started(self, now_s: float) -> None:
        self._started_s, self._has_batch = now_s, False

    def batch_done(self) -> None:
        """Record that a batch has finished since the start."""
        self._has_batch = True

    def failed(self, now_s: float) -> float | None:
        """Record a failure; return the time of the next start, or None to give up."""
        if self._has_batch and now_s - self._started_s >= RESET_AFTER_S:
            self.failures = 0
        self._has_batch = False
        self.failures += 1
        self.total += 1
        if self.restarts_max is not None and self.failures > self.restarts_max:
            return None
        return now_s + min(FIRST_S * (1 << min(self.failures - 1, _DOUBLINGS_MAX)), LONGEST_S)
