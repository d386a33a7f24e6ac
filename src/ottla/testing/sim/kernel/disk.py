"""A disk that can lose power at any change, and workers whose work takes time.

`die_in(n)` lets the power go at the n-th change from then on: that change is lost, or left unsynced to be torn by
`crash`. From that moment on the disk refuses everything with `PowerLost`, which no handler of errors catches.
"""

from __future__ import annotations

from typing import Final

from ottla.base.executor import Done, Work
from ottla.base.rng import Random
from ottla.testing.disk import Change, SimDisk
from ottla.testing.sim.kernel.loop import SimLoop

_TRACE_MAX: Final = 1000


class PowerLost(BaseException):
    """The machine is off; nothing that still runs on it has any effect."""


class PowerLossDisk(SimDisk):
    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.dead = False
        self.failures = 0
        self._discarded = False
        self._power_lost_in = -1

    def discard(self) -> None:
        """Nobody runs on it any more; what the garbage collector still finds to close has no effect."""
        self._discarded = True

    def lose_power_in(self, changes: int) -> None:
        self._power_lost_in = changes

    def _maybe_fail(self, change: Change) -> None:
        try:
            super()._maybe_fail(change)
        except OSError:
            self.failures += 1
            raise

    def apply(self, change: Change) -> None:
        if self._discarded:
            return
        if self.dead:
            raise PowerLost
        if self._power_lost_in >= 0:
            self._power_lost_in -= 1
            if self._power_lost_in < 0:
                if self._rng.random() < 0.5:
                    super().apply(change._replace(sync=False))
                self.dead = True
                raise PowerLost
        super().apply(change)
        if len(self.trace) > _TRACE_MAX:
            self.trace.clear()


class SimExecutor:
    """An executor whose work is done a little later, and reported a little after that."""

    def __init__(self, loop: SimLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self.slow_chance = 0.0
        self.slow_ms_max = 0.0

    def submit(self, work: Work, done: Done) -> None:
        delay_ms = self._rng.uniform(0.05, 0.6)
        if self.slow_chance and self._rng.random() < self.slow_chance:
            delay_ms += self._rng.uniform(0, self.slow_ms_max)
        self._loop.call_later(delay_ms / 1000, self._work, work, done)

    def close(self) -> None:
        """Nothing is held here."""

    def _work(self, work: Work, done: Done) -> None:
        failure: BaseException | None = None
        try:
            work()
        except PowerLost:
            return
        except Exception as error:  # noqa: BLE001 - handed to the loop, which judges it
            failure = error
        self._loop.call_soon(done, failure)
