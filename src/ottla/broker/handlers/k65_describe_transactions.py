"""DescribeTransactions (key 65), version 0: state, producer and partitions of transactions.

While a transaction is being ended, only the partitions without a marker are listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.registry import Call, handles
from ottla.broker.repetitions import limited
from ottla.broker.requirements import resources
from ottla.coordinator.txn.responses import TransactionDescription
from ottla.coordinator.txn.transaction import by_topic
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handles(
    ApiKey.DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    versions=(0, 0),
    requires=resources(
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), (Operation.DESCRIBE, ResourceType.TOPIC)
    ),
)
@dataclass(frozen=True)
class DescribeTransactions:
    """Reads each transaction from its coordinator."""

    authorization: Authorization
    transactions: TxnCoordinator

    async def handle(self, request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
        states = [await self._state(each, call) for each in limited(request.transactional_ids)]
        return DescribeTransactionsResponse(transaction_states=states)

    async def _state(self, name: str, call: Call) -> TransactionState:
        try:
            check(self.authorization, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            described = await self.transactions.read(name, lambda machine: machine.describe(name))
        except ApiError as error:
            return TransactionState(error_code=error.code, transactional_id=name)
        state = _to_state(name, described)
        visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
        if visible is not None:
            state.topics = [each for each in state.topics if visible(each.topic)]
        return state


def _to_state(name: str, described: TransactionDescription) -> TransactionState:
    transaction = described.transaction
    return TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic(described.partitions)
        ],
    )
