"""Executor of a simulated process: work is run after a delay, and its completion is reported in a later event.

Completions may be reported in another order than that of the work, as with several threads.
"""

from __future__ import annotations

from ottla.base.executor import Done, Work
from ottla.testing.sim.kernel.disk import PowerLost
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.loop import SimLoop


class SimExecutor:
    """Runs work on the loop of a process; the host determines how slow its disk is."""

    def __init__(self, host: Host, loop: SimLoop) -> None:
        self._host = host
        self._loop = loop
        self._rng = host.stream(f"executor of {loop.name}")

    def submit(self, work: Work, done: Done) -> None:
        delay_ms = self._rng.uniform(*self._host.pace.work_ms)
        if self._host.slow_chance and self._rng.random() < self._host.slow_chance:
            delay_ms += self._rng.uniform(0, self._host.slow_ms_max)
        self._loop.call_later(delay_ms / 1000, self._work, work, done)

    def close(self) -> None:
        """Do nothing: there are no threads to end."""

    def _work(self, work: Work, done: Done) -> None:
        failure: BaseException | None = None
        try:
            work()
        except PowerLost:
            return
        except Exception as error:  # noqa: BLE001 - reported to the submitter, which handles it
            failure = error
        notice_ms_max = self._host.pace.notice_ms_max
        if notice_ms_max:
            self._loop.call_later(self._rng.uniform(0, notice_ms_max) / 1000, done, failure)
        else:
            self._loop.call_soon(done, failure)
