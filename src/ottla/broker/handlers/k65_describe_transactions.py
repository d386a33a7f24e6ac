"""DescribeTransactions (key 65), version 0: state, producer and partitions of transactions.

While a transaction is being ended, only the partitions without a marker are listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.registry import Call, handles
from ottla.coordinator.txn.responses import TransactionDescription
from ottla.coordinator.txn.transaction import by_topic
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handles(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, versions=(0, 0))
@dataclass(frozen=True)
class DescribeTransactions:
    """Reads each transaction from its coordinator."""

    transactions: TxnCoordinator

    async def handle(self, request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
        states = [await self._state(each) for each in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=states)

    async def _state(self, name: str) -> TransactionState:
        try:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            described = await self.transactions.read(name, lambda machine: machine.describe(name))
        except ApiError as error:
            return TransactionState(error_code=error.code, transactional_id=name)
        return _to_state(name, described)


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
