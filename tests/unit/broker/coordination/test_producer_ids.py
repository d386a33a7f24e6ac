"""Producer ids in blocks of the controller: each id once, and errors that clients repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.peer.errors import PeerError, Reason
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.schema import Message


class Controller:
    """Allocates blocks of three ids, unless it has an error."""

    def __init__(self) -> None:
        self.requests: list[AllocateProducerIdsRequest] = []
        self.code = ErrorCode.NONE
        self.lost = False

    def request(self, message: Message, response: type[Message], *, timeout_s: float) -> Promise[Any]:
        assert isinstance(message, AllocateProducerIdsRequest)
        promise: Promise[Any] = Promise()
        if self.lost:
            promise.fail(PeerError(Reason.TIMED_OUT, "no controller"))
            return promise
        self.requests.append(message)
        start = 10 * len(self.requests)
        promise.keep(
            AllocateProducerIdsResponse(error_code=self.code, producer_id_start=start, producer_id_len=3)
        )
        return promise


def taken(ids: ProducerIds, count: int) -> list[int]:
    async def take() -> list[int]:
        return list(await asyncio.gather(*(ids.take() for _ in range(count))))

    return asyncio.run(take())


def test_each_id_is_taken_once() -> None:
    controller = Controller()
    ids = ProducerIds(controller, 7, lambda: 42)
    assert taken(ids, 7) == [10, 11, 12, 20, 21, 22, 30]
    assert {(each.broker_id, each.broker_epoch) for each in controller.requests} == {(7, 42)}


@pytest.mark.parametrize(
    ("code", "lost", "expected"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, False, ErrorCode.STALE_BROKER_EPOCH),
        (ErrorCode.NONE, True, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_without_a_block_no_id_is_taken(code: ErrorCode, lost: bool, expected: ErrorCode) -> None:
    controller = Controller()
    controller.code, controller.lost = code, lost
    ids = ProducerIds(controller, 7, lambda: 42)
    with pytest.raises(ApiError) as refused:
        taken(ids, 1)
    assert refused.value.code is expected
    controller.code, controller.lost = ErrorCode.NONE, False
    first = 10 * (len(controller.requests) + 1)
    assert taken(ids, 2) == [first, first + 1]
