"""Disk of a simulated host, which can lose power at any change.

`lose_power_in(n)` makes the power fail at the n-th change from then on: that change is lost, or it stays unsynced and
`crash` may tear it. From that moment on the disk refuses every change with `PowerLost`, which no error handler of a
node catches.
"""

from __future__ import annotations

from typing import Final

from ottla.base.rng import Random
from ottla.testing.disk import Change, SimDisk

_TRACE_MAX: Final = 1000


class PowerLost(BaseException):
    """The host is off; code that still runs on it has no effect."""


class PowerLossDisk(SimDisk):
    """A `SimDisk` with power failures."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.power_lost = False
        self.failures = 0
        """How many changes have failed with an OSError."""
        self._discarded = False
        self._changes_left = -1

    def discard(self) -> None:
        """Ignore all further changes: no process uses this disk, but the garbage collector may close its files."""
        self._discarded = True

    def lose_power_in(self, changes: int) -> None:
        """Fail at that change, counted from now; -1: do not fail."""
        self._changes_left = changes

    def _maybe_fail(self, change: Change) -> None:
        try:
            super()._maybe_fail(change)
        except OSError:
            self.failures += 1
            raise

    def apply(self, change: Change) -> None:
        if self._discarded:
            return
        if self.power_lost:
            raise PowerLost
        if self._changes_left >= 0:
            self._changes_left -= 1
            if self._changes_left < 0:
                if self._rng.random() < 0.5:
                    super().apply(change._replace(sync=False))
                self.power_lost = True
                raise PowerLost
        super().apply(change)
        if len(self.trace) > _TRACE_MAX:
            self.trace.clear()
