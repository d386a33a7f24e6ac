"""Disk of a simulated host, which can lose power at any change, and of which a directory can fail or space can run out.

`lose_power_in(n)` makes the power fail at the n-th change from then on: that change is lost, or it stays unsynced and
`crash` may tear it. From that moment on the disk refuses every change with `PowerLost`, which no error handler of a
node catches.

`failed_dir` is a directory whose device has failed: every change below it, and every attempt to open a file in it, is
an EIO. Files that are open can still be read. `full` refuses everything that needs space with ENOSPC. Both last over
restarts until they are repaired.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from ottla.base.rng import Random
from ottla.testing.disk import Change, SimDisk, SimFile, Survival

_TRACE_MAX: Final = 1000
_NEED_SPACE: Final = frozenset({"create", "mkdir", "write"})


class PowerLost(BaseException):
    """The host is off; code that still runs on it has no effect."""


class PowerLossDisk(SimDisk):
    """A `SimDisk` with power failures, failed directories and a limit of its space."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.power_lost = False
        self.failed_dir = ""
        self.full = False
        self.inspected = False
        """Set while checkers read the files of a node: they can read those of a failed directory, too."""
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

    def repair(self) -> None:
        """End all failures. What is on the disk stays."""
        self.lose_power_in(-1)
        self.fail_at(-1)
        self.failed_dir, self.full = "", False

    def crash(self, survival: Survival = Survival.SOME) -> SimDisk:
        found = super().crash(survival)
        if isinstance(found, PowerLossDisk):
            found.failed_dir, found.full = self.failed_dir, self.full
        return found

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self._check_device(path)
        return super().open(path, create=create)

    def _check_device(self, path: str) -> None:
        if (
            self.failed_dir
            and not self.inspected
            and (path == self.failed_dir or path.startswith(f"{self.failed_dir}/"))
        ):
            self.failures += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _maybe_fail(self, change: Change) -> None:
        self._check_device(change.path)
        if self.full and change.kind in _NEED_SPACE:
            self.failures += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), change.path)
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
