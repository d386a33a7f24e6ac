"""What handlers of transaction requests share: producer ids when they are needed, errors that clients know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.txn_requests import client_error, take_producer_id, write_with_producer_id
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


def write(ids: _Ids, operation: Callable[[Any, int | None], Any]) -> Any:
    return asyncio.run(write_with_producer_id(cast(Any, _Coordinator()), cast(Any, ids), "id", operation))


def needing(machine: Any, fresh_id: int | None) -> Any:
    if fresh_id is None:
        raise NeedsProducerId("one")
    return fresh_id


def test_a_producer_id_is_taken_when_one_is_needed() -> None:
    assert write(_Ids(7), needing) == 7


def test_no_producer_id_is_taken_otherwise() -> None:
    ids = _Ids(7)
    assert write(ids, lambda machine, fresh_id: fresh_id) is None
    assert asyncio.run(take_producer_id(cast(Any, ids))) == 7


def test_an_error_of_the_controller_is_reported_as_retriable() -> None:
    with pytest.raises(ApiError) as refused:
        write(_Ids(), needing)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_errors_are_mapped_to_codes_that_clients_know() -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    assert client_error(fenced, knows_fenced=True) is fenced
    assert client_error(fenced, knows_fenced=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        client_error(ErrorCode.CONCURRENT_TRANSACTIONS, knows_fenced=False)
        is ErrorCode.CONCURRENT_TRANSACTIONS
    )
    assert client_error(ErrorCode.MESSAGE_TOO_LARGE, knows_fenced=True) is ErrorCode.UNKNOWN_SERVER_ERROR
