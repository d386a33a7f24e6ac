"""Results of the transaction coordinator, independent of the wire format.

An error that depends on the state of a transaction is a result like any other and waits for the commit: a client
never sees that it is fenced by a record that can still be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.transaction import NO_PRODUCER, Producer, Transaction


class InitProducerIdResult(NamedTuple):
    """The new producer id and epoch and, if a transaction was kept, the producer that wrote it."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER
    ongoing: Producer = NO_PRODUCER


class EndTxnResult(NamedTuple):
    """The error of an end of a transaction, and the producer id and epoch of the next transaction."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class TransactionDescription(NamedTuple):
    """A transaction as DescribeTransactions shows it; `partitions` are those without a marker."""

    transaction: Transaction
    partitions: frozenset[TopicPartition]


class ListFilters(NamedTuple):
    """Filters of ListTransactions. A filter that is empty, negative or None matches everything."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    matches: Callable[[str], object] | None = None


class TransactionListing(NamedTuple):
    """One transaction in the response of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
