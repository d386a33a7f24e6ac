"""DescribeTransactions (key 65), version 0: how transactions stand.

While a transaction is being ended only the partitions are shown that have no marker yet.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
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
async def describe_transactions(
    request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    states = [await _state(each, call) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


async def _state(name: str, call: Call) -> TransactionState:
    try:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        described = await call.broker.transactions.read(name, lambda machine: machine.describe(name))
    except ApiError as error:
        return TransactionState(error_code=error.code, transactional_id=name)
    return _shown(name, described)


def _shown(name: str, described: TransactionDescription) -> TransactionState:
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
