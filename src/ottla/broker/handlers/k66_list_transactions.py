"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates.

Filters: states, producer ids, the minimum duration of a transaction (version 1), and a regular expression that must
match the whole id (version 2). Clients send the expression, so RE2 matches it, in linear time. RE2 is imported with the
first expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import TxnCoordinator
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.coordinator.txn.responses import ListFilters
from ottla.coordinator.txn.transitions import STATES_BY_LABEL
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_PATTERN_BYTES_MAX: Final = 1 << 20


@handles(
    ApiKey.LIST_TRANSACTIONS,
    ListTransactionsRequest,
    versions=(0, 2),
    requires=resources((Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
)
@dataclass(frozen=True)
class ListTransactions:
    """Reads the transactions of all partitions that this broker coordinates."""

    authorization: Authorization
    transactions: TxnCoordinator

    async def handle(self, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
        try:
            filters = ListFilters(
                frozenset(request.state_filters),
                frozenset(request.producer_id_filters),
                request.duration_filter,
                _matcher(request.transactional_id_pattern) if request.transactional_id_pattern else None,
            )
            shards = await self.transactions.read_all(lambda machine: machine.list(filters))
        except ApiError as error:
            return ListTransactionsResponse(error_code=error.code)
        visible = name_filter(
            self.authorization, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, quiet=True
        )
        return ListTransactionsResponse(
            unknown_state_filters=[
                each for each in dict.fromkeys(request.state_filters) if each not in STATES_BY_LABEL
            ],
            transaction_states=[
                TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state,
                )
                for shard in shards
                for each in shard
                if visible is None or visible(each.transactional_id)
            ],
        )


def _matcher(pattern: str) -> Callable[[str], object]:
    import re2

    options = re2.Options()
    options.max_mem = _PATTERN_BYTES_MAX
    # Otherwise RE2 writes errors of patterns to standard error.
    options.log_errors = False
    try:
        matches: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    except re2.error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION) from None
    return matches
