"""The one poller of a cluster, shared by all pages.

A task of the event loop takes a snapshot every second in a worker thread and publishes it, while at least one page
watches, and stops with the last one. All methods belong to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ottla.base.clock import Clock, SystemClock
from ottla.console.data.snapshot import Snapshot

INTERVAL_S = 1.0
REST_FACTOR = 4
"""On a large or slow cluster the poller rests at least this many times as long as a snapshot took."""
FRESH_S = 1.5
"""A page without a stream uses a snapshot that is at most this old."""
_log = logging.getLogger(__name__)


class Poller:
    def __init__(
        self, take: Callable[[], Snapshot], *, interval_s: float = INTERVAL_S, clock: Clock | None = None
    ) -> None:
        self._take, self._interval_s = take, interval_s
        self._clock = clock or SystemClock()
        self._taking = asyncio.Lock()
        self._published = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._watchers = 0
        self._taken_s = float("-inf")
        self.snapshot = Snapshot()

    @property
    def running(self) -> bool:
        return self._task is not None

    async def current(self) -> Snapshot:
        """A fresh snapshot: the published one if it is new enough, else one taken now."""
        async with self._taking:
            if self._clock.monotonic() - self._taken_s > FRESH_S:
                await self._take_one()
        return self.snapshot

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Keep the poller running for as long as the block lasts."""
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._task is not None:
                self._task.cancel()
                self._task = None

    async def newer_than(self, version: int) -> Snapshot:
        """Wait for a snapshot with a higher version. Only while watching."""
        async with self._published:
            await self._published.wait_for(lambda: self.snapshot.version > version)
        return self.snapshot

    async def poke(self) -> None:
        """Take a snapshot now: something was changed by an action."""
        async with self._taking:
            await self._take_one()

    async def _run(self) -> None:
        while True:
            began_s = self._clock.monotonic()
            try:
                async with self._taking:
                    await self._take_one()
            except Exception:  # noqa: BLE001 - one snapshot that fails must not end the updates of all pages
                _log.exception("the snapshot of the cluster failed")
            busy_s = self._clock.monotonic() - began_s
            pause_s = max(self._interval_s, REST_FACTOR * busy_s)
            await asyncio.sleep(pause_s)  # noqa: TID251 - the interval of the poller

    async def _take_one(self) -> None:
        self.snapshot = await asyncio.to_thread(self._take)
        self._taken_s = self._clock.monotonic()
        async with self._published:
            self._published.notify_all()
