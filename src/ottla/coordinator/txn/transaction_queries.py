"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.txn.completion import Completion
from ottla.coordinator.txn.responses import ListFilters, TransactionDescription, TransactionListing
from ottla.coordinator.txn.table import TxnTable


class TransactionQueries:
    """Reads transactions for administrators."""

    def __init__(self, table: TxnTable, completion: Completion) -> None:
        self._table = table
        self._completion = completion

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Raises INVALID_REQUEST or TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self._table.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return TransactionDescription(transaction, self._completion.pending_partitions(transactional_id))

    def list(self, filters: ListFilters) -> list[TransactionListing]:
        """The transactions that match all filters, in the order in which their ids were created."""
        now_ms = self._table.clock.now_ms()
        return [
            TransactionListing(transactional_id, each.producer_id, each.state.label)
            for transactional_id, each in self._table.items()
            if (not filters.states or each.state.label in filters.states)
            and (not filters.producer_ids or each.producer_id in filters.producer_ids)
            and (filters.duration_ms < 0 or now_ms - each.started_ms > filters.duration_ms)
            and (filters.matches is None or filters.matches(transactional_id))
        ]
