"""Producer ids for clients, from blocks that the controller allocates to this broker.

A new block is requested when the current one is used up; requests that arrive meanwhile wait for it. The rest of a
block is lost at a restart: ids are never reused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.peer.errors import PeerError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)
_TIMEOUT_S: Final = 5.0


class Channel(Protocol):
    """Requests to the active controller; see `broker.forwarding.controller_channel`."""

    def request(self, message: Message, response: type[M], *, timeout_s: float) -> Promise[M]: ...


class ProducerIds:
    """The current block of this broker. Concurrency: the event loop only."""

    def __init__(self, channel: Channel, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._lock = asyncio.Lock()
        self._next = 0
        self._end = 0

    async def take(self) -> int:
        """Return an unused id; raises ApiError if the controller allocates no block."""
        async with self._lock:
            if self._next == self._end:
                block = await self._allocate()
                self._next = block.producer_id_start
                self._end = block.producer_id_start + block.producer_id_len
            taken = self._next
            self._next += 1
            return taken

    async def _allocate(self) -> AllocateProducerIdsResponse:
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        try:
            response = await settled(
                self._channel.request(request, AllocateProducerIdsResponse, timeout_s=_TIMEOUT_S)
            )
        except PeerError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), "the controller allocates no producer ids")
        return response
