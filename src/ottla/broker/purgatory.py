"""The deadlines of pending requests.

Partitions notify requests of the events that complete them (`replication.partition`); this module expires the others.
There can be hundreds of thousands of Produce requests per second, which almost never expire: they are kept in one table
that is swept several times per second. A Fetch request usually expires and has its own timer.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from ottla.base.timer import ReusedTimer
from ottla.broker.turn import Turn

_SWEEP_SECONDS: Final = 0.05


class Expiring(Protocol):
    """A request that expires at `deadline` (loop time)."""

    deadline: float

    def expire(self) -> None: ...


class Purgatory:
    """The deadlines of the pending requests of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Turn) -> None:
        self._loop = loop
        self._turn = turn
        self._waiting: dict[Expiring, None] = {}
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._waiting)

    def now(self) -> float:
        return self._loop.time()

    def add(self, request: Expiring) -> None:
        self._waiting[request] = None
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def remove(self, request: Expiring) -> None:
        self._waiting.pop(request, None)

    def timer(self, seconds: float, expire: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, expire)

    def reused_timer(self) -> ReusedTimer:
        """A timer for requests that wait one after the other."""
        return ReusedTimer(self._loop.call_later, self._loop.time)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` after everything that is ready in this iteration of the loop, and after the writes."""
        self._turn.check(callback)

    def _sweep(self) -> None:
        now = self._loop.time()
        for request in [one for one in self._waiting if one.deadline <= now]:
            self._waiting.pop(request, None)
            request.expire()
        self._sweeping = bool(self._waiting)
        if self._sweeping:
            self._loop.call_later(_SWEEP_SECONDS, self._sweep)
