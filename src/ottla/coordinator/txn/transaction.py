"""The state of one transactional id: its producer and its transaction.

A `Transaction` is immutable: a decision creates the next one, its record is appended, and replaying the record stores
it. Its fields are those of the log record. The log formats are `TransactionLogValue` 0 (until the feature
transaction.version is 1) and 1, whose tagged fields store what version 0 cannot: the previous and the next producer,
and the protocol version of the client.

A transaction has up to two producers:
- (`producer_id`, `producer_epoch`) wrote the open transaction, and its markers name it;
- requests must name the *client's* producer. It is the same one unless a new process has kept a prepared transaction
  (KIP-939); then it is (`next_producer_id`, `next_producer_epoch`) and becomes the first one at completion.

A `next_producer_id` without an epoch means that this transaction has exhausted the epochs of the current id: at
completion that id follows, with epoch 0.

Epoch 32767 is never given to a client, so that a producer with epoch 32766 can still be fenced.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from ottla.base.errors import OttlaError
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.txn.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.coordinator.txn.transitions import TxnState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 32_767
LAST_CLIENT_EPOCH: Final = EPOCH_MAX - 1
NEVER_TIMES_OUT_MS: Final = 2**31 - 1
"""The timeout of a transaction in two-phase commit: only its external coordinator ends it."""

EPOCH_PER_TRANSACTION: Final = 2
"""The first transaction.version in which every end of a transaction raises the epoch (KIP-890)."""


class NeedsProducerId(OttlaError):
    """The operation needs a new producer id: allocate one and repeat the operation with it."""


class Producer(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int

    @property
    def exhausted(self) -> bool:
        """True if a client cannot get a higher epoch of this id."""
        return self.epoch >= LAST_CLIENT_EPOCH


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_EPOCH)


def next_producer(producer: Producer, fresh_id: int | None) -> Producer:
    """The producer that fences this one; raises NeedsProducerId if it needs a new id and None is given."""
    if not producer.exhausted:
        return Producer(producer.id, producer.epoch + 1)
    if fresh_id is None:
        raise NeedsProducerId("the epochs of this producer id are exhausted")
    return Producer(fresh_id, 0)


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one transactional id after its last record."""

    producer_id: int
    producer_epoch: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    client_version: int = 0
    """The transaction.version of the client's last request; 2: every end raises the epoch."""

    @property
    def producer(self) -> Producer:
        """The producer that writes the transaction."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def kept(self) -> bool:
        """Whether a new process has kept the open transaction (KIP-939); it can only be ended."""
        return self.next_producer_epoch != NO_EPOCH

    @property
    def client(self) -> Producer:
        """The producer that requests must name."""
        return Producer(self.next_producer_id, self.next_producer_epoch) if self.kept else self.producer

    @property
    def successor(self) -> Producer:
        """The producer after the completion of the transaction."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return Producer(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def two_phase(self) -> bool:
        return self.timeout_ms == NEVER_TIMES_OUT_MS

    def timed_out(self, now_ms: int) -> bool:
        """True if the timeout of an open transaction has passed."""
        return (
            self.state is TxnState.ONGOING
            and not self.two_phase
            and self.started_ms + self.timeout_ms < now_ms
        )

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if the id has been unused for longer than `transactional.id.expiration.ms`."""
        return self.state.idle and self.updated_ms <= now_ms - expiration_ms


def log_value_version(transaction_version: int) -> int:
    """The version of log values at this level of the feature transaction.version."""
    return 1 if transaction_version >= 1 else 0


def to_record(transactional_id: str, transaction: Transaction, version: int) -> LogRecord:
    """The record that stores the transaction."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=_listed(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_version
    return LogRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def to_tombstone(transactional_id: str) -> LogRecord:
    """The record that removes the transactional id."""
    return LogRecord(TransactionLogKey(transactional_id=transactional_id))


def from_value(value: TransactionLogValue) -> Transaction:
    """The transaction that a record stores; raises ValueError for an unknown status."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TxnState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Partitions grouped by topic, both in ascending order."""
    grouped = groupby(sorted(partitions), key=lambda each: each.topic)
    return [(topic, [each.partition for each in group]) for topic, group in grouped]


def _listed(transaction: Transaction) -> list[PartitionsSchema] | None:
    # As in Kafka, the list is null if there is no transaction.
    if transaction.state is TxnState.EMPTY:
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=partitions)
        for topic, partitions in by_topic(transaction.partitions)
    ]
