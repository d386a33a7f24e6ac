"""Producer ids for clients, from blocks that the controller allocates to this broker.

A new block is requested when the current one is used up; requests that arrive meanwhile wait for it. The rest of a
block is lost at a restart: ids are never reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.controller.port import ProducerIdBlock


class ProducerIds:
    """The current block of this broker. Concurrency: the event loop only."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._lock = asyncio.Lock()
        self._next = 0
        self._end = 0

    async def take(self) -> int:
        """Return an unused id; raises ApiError if the controller allocates no block."""
        async with self._lock:
            if self._next == self._end:
                block = await self._allocate()
                self._next, self._end = block.first, block.first + block.size
            taken = self._next
            self._next += 1
            return taken
