"""What handlers of transaction requests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.services import Broker
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.txn.transaction import NeedsProducerId
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine

R = TypeVar("R")


async def ask_with_id(
    broker: Broker, transactional_id: str, operation: Callable[[TxnStateMachine, int | None], Decision[R]]
) -> R:
    """Let the machine decide; if it needs a new producer id, take one and ask again. Raises ApiError."""
    try:
        return await broker.transactions.write(transactional_id, lambda machine: operation(machine, None))
    except NeedsProducerId:
        fresh_id = await take_id(broker)
    return await broker.transactions.write(transactional_id, lambda machine: operation(machine, fresh_id))


async def take_id(broker: Broker) -> int:
    """A producer id that nobody has; raises ApiError."""
    try:
        return await broker.producer_ids.take()
    except ApiError as error:
        # The client tries again; it does not know the controller's errors.
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error


def told(code: ErrorCode, *, knows_fenced: bool) -> ErrorCode:
    """The error as a client is told it: old ones know a fenced producer only by its epoch."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        # Too many partitions for one record of the transaction log.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code
