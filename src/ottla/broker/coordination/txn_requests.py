"""Functions that the handlers of transaction requests share: producer ids and error mapping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.coordination.producer_ids import ProducerIds
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.txn.transaction import NeedsProducerId
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine

R = TypeVar("R")


async def write_with_producer_id(
    transactions: TxnCoordinator,
    producer_ids: ProducerIds,
    transactional_id: str,
    operation: Callable[[TxnStateMachine, int | None], Decision[R]],
) -> R:
    """Let the machine decide; if it needs a new producer id, take one and try again. Raises ApiError."""
    try:
        return await transactions.write(transactional_id, lambda machine: operation(machine, None))
    except NeedsProducerId:
        new_id = await take_producer_id(producer_ids)
    return await transactions.write(transactional_id, lambda machine: operation(machine, new_id))


async def take_producer_id(producer_ids: ProducerIds) -> int:
    """Return an unused producer id; raises ApiError."""
    try:
        return await producer_ids.take()
    except ApiError as error:
        # Clients retry this one; they do not know the errors of the controller.
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error


def client_error(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """Return the code with which an error is reported to a client; old ones do not know PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        # Too many partitions for one record of the transaction log.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code
