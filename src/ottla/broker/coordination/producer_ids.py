"""Producer ids for clients, out of blocks that the controller gives to this broker.

A new block is asked for when the current one is used up; everyone who comes meanwhile waits for it. Ids of
a block not used up before a restart are lost, never reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.controller.port import ProducerIdBlock


class ProducerIds:
    """Concurrency: the event loop only."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._lock = asyncio.Lock()
        self._next = 0
        self._end = 0

    async def take(self) -> int:
        """An id that nobody else gets; raises ApiError if the controller cannot give a block."""
        async with self._lock:
            if self._next == self._end:
                block = await self._allocate()
                self._next, self._end = block.first, block.first + block.size
            taken = self._next
            self._next += 1
            return taken
