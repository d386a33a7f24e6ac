"""When a failed flow is started again: after a pause that doubles with each failure in a row. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
_DOUBLINGS_MAX: Final = 10
FORGIVEN_AFTER_S: Final = 300.0
"""A flow that has done batches for so long is well again: its next failure is a first one."""
RESTARTS_ONCE: Final = 3
"""After so many failures in a row a triggered run gives up unless told otherwise: somebody waits for its end."""


@dataclass
class Backoff:
    """The failures of one flow. `restarts_max` None never gives up."""

    restarts_max: int | None = None
    failures: int = 0
    total: int = 0
    _started_s: float = field(default=0.0, repr=False)
    _worked: bool = field(default=False, repr=False)

    def started(self, now_s: float) -> None:
        self._started_s, self._worked = now_s, False

    def worked(self) -> None:
        """A batch was done since the start."""
        self._worked = True

    def failed(self, now_s: float) -> float | None:
        """When to start again; None to give up."""
        if self._worked and now_s - self._started_s >= FORGIVEN_AFTER_S:
            self.failures = 0
        self._worked = False
        self.failures += 1
        self.total += 1
        if self.restarts_max is not None and self.failures > self.restarts_max:
            return None
        return now_s + min(FIRST_S * (1 << min(self.failures - 1, _DOUBLINGS_MAX)), LONGEST_S)
