"""What the coordinator of transactions answers, apart from the wire.

A refusal that depends on the state of a transaction is an answer like any other and waits with it: a client is
not told that it is fenced by something that may still be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.transaction import NO_PRODUCER, Producer, Transaction


class InitProducerIdResult(NamedTuple):
    """Who the producer is from now on and, if a transaction was kept, in whose name that was written."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER
    ongoing: Producer = NO_PRODUCER


class EndTxnResult(NamedTuple):
    """How a transaction was told to end, and who the producer is for the next one."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


class TransactionDescription(NamedTuple):
    """A transaction as an administrator sees it; `partitions` are those that still wait for a marker."""

    transaction: Transaction
    partitions: frozenset[TopicPartition]


class ListFilters(NamedTuple):
    """Which transactions to list; what is empty, negative or None lets everything pass."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    matches: Callable[[str], object] | None = None


class TransactionListing(NamedTuple):
    """One line of a list of transactions."""

    transactional_id: str
    producer_id: int
    state: str
