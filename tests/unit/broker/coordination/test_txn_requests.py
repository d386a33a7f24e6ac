"""What handlers of transaction requests share: producer ids when they are needed, errors that clients know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.txn_requests import ask_with_id, take_id, told
from ottla.broker.services import Broker
from ottla.coordinator.txn.transaction import NeedsProducerId


class _Coordinator:
    async def write(self, key: str, operation: Callable[[Any], Any]) -> Any:
        return operation(None)


class _Ids:
    def __init__(self, *ids: int) -> None:
        self.left = list(ids)

    async def take(self) -> int:
        if not self.left:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self.left.pop(0)


def broker_with(*ids: int) -> Broker:
    return cast(Broker, SimpleNamespace(transactions=_Coordinator(), producer_ids=_Ids(*ids)))


def needing(machine: Any, fresh_id: int | None) -> Any:
    if fresh_id is None:
        raise NeedsProducerId("one")
    return fresh_id


def test_a_producer_id_is_taken_when_one_is_asked_for() -> None:
    assert asyncio.run(ask_with_id(broker_with(7), "id", needing)) == 7


def test_none_is_taken_otherwise() -> None:
    broker = broker_with(7)
    assert asyncio.run(ask_with_id(broker, "id", lambda machine, fresh_id: fresh_id)) is None  # type: ignore[arg-type, return-value]
    assert asyncio.run(take_id(broker)) == 7


def test_a_controller_without_ids_is_told_as_something_to_wait_for() -> None:
    with pytest.raises(ApiError) as refused:
        asyncio.run(ask_with_id(broker_with(), "id", needing))
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_clients_are_told_errors_that_they_know() -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    assert told(fenced, knows_fenced=True) is fenced
    assert told(fenced, knows_fenced=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert told(ErrorCode.CONCURRENT_TRANSACTIONS, knows_fenced=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert told(ErrorCode.MESSAGE_TOO_LARGE, knows_fenced=True) is ErrorCode.UNKNOWN_SERVER_ERROR
