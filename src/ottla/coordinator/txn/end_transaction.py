"""EndTxn, and aborts by the coordinator: because another producer has started, or because of a timeout.

The prepare record decides the end of a transaction; from then on the transaction can only be completed that way.
Markers are sent when that record is committed (`send_markers_once_prepared`), never before: a marker cannot be
undone.

There are two versions of the protocol. The version of the client's request and the finalised feature
transaction.version determine which one is used:
- before the second part of KIP-890 the epoch stays the same, and a repeated EndTxn is recognised by the state alone;
- since then every end raises the epoch, or continues with a new producer id when the epochs are exhausted, so that a
  request of an earlier transaction is never taken for one of the current transaction. A repeated EndTxn names the
  previous epoch. An EndTxn with the current epoch belongs to the next transaction; if that is still empty, it can
  only be aborted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.txn.completion import Completion
from ottla.coordinator.txn.responses import EndTxnResult
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import (
    EPOCH_MAX,
    EPOCH_PER_TRANSACTION,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    Transaction,
    next_producer,
)
from ottla.coordinator.txn.transitions import TxnState

_COMMITTING: Final = (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)


class EndTransaction:
    """Decides the ends of transactions."""

    def __init__(self, table: TxnTable, completion: Completion) -> None:
        self._table = table
        self._completion = completion

    def decide(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        committed: bool,
        client_version: int,
        fresh_id: int | None,
    ) -> Decision[EndTxnResult]:
        """`fresh_id` is an unused producer id; raises NeedsProducerId if one is needed and None is given."""
        if not transactional_id:
            return _refused(ErrorCode.INVALID_REQUEST)
        before = self._table.get(transactional_id)
        if before is None:
            return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if client_version >= EPOCH_PER_TRANSACTION and _is_repeated(before, producer):
            return _already_decided(before, committed)
        if min(client_version, self._table.transaction_version) >= EPOCH_PER_TRANSACTION:
            return self._end_and_raise(transactional_id, before, producer, committed, fresh_id)
        return self._end(transactional_id, before, producer, committed)

    def fence(self, transactional_id: str, before: Transaction) -> LogRecord:
        """Abort an open transaction with a raised epoch, so that its producer is fenced."""
        client = before.client
        raising = self._table.transaction_version >= EPOCH_PER_TRANSACTION
        after = msgspec.structs.replace(
            self._prepared(before, committed=False),
            producer_epoch=before.producer_epoch + 1,
            next_producer_epoch=min(client.epoch + 1, EPOCH_MAX) if before.kept else NO_EPOCH,
            client_version=EPOCH_PER_TRANSACTION if raising else 0,
        )
        # Where every end raises the epoch, the producer gets the new epoch when it repeats its request.
        last_epoch = client.epoch if raising else NO_EPOCH
        return self._table.transition(transactional_id, after, last_epoch=last_epoch, fenced=True)

    def send_markers_once_prepared(self, *transactional_ids: str) -> Callable[[ErrorCode], None]:
        """The `on_complete` callback of a decision that prepares ends: sends the markers after the commit."""

        def on_complete(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for each in transactional_ids:
                    self._completion.begin(each)

        return on_complete

    def _end(
        self, transactional_id: str, before: Transaction, producer: Producer, committed: bool
    ) -> Decision[EndTxnResult]:
        if producer != before.client:
            return _wrong_producer(before, producer)
        if before.state is TxnState.EMPTY:
            return _refused(ErrorCode.INVALID_TXN_STATE)
        if before.state is not TxnState.ONGOING:
            return _already_decided(before, committed)
        after = msgspec.structs.replace(self._prepared(before, committed=committed), client_version=0)
        record = self._table.transition(transactional_id, after)
        return self._prepared_decision(transactional_id, after, record)

    def _end_and_raise(
        self,
        transactional_id: str,
        before: Transaction,
        producer: Producer,
        committed: bool,
        fresh_id: int | None,
    ) -> Decision[EndTxnResult]:
        if before.state.preparing and producer == before.successor:
            # The producer has the response of its EndTxn already, and the markers are not written yet.
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if before.state.preparing or producer != before.client:
            return _wrong_producer(before, producer)
        if before.state is not TxnState.ONGOING and committed:
            return _refused(ErrorCode.INVALID_TXN_STATE)
        follower = next_producer(producer, fresh_id)
        after = msgspec.structs.replace(
            self._prepared(before, committed=committed),
            producer_epoch=before.producer_epoch + 1,
            next_producer_id=follower.id if before.kept or follower.id != producer.id else NO_PRODUCER_ID,
            next_producer_epoch=follower.epoch if before.kept else NO_EPOCH,
            client_version=EPOCH_PER_TRANSACTION,
        )
        record = self._table.transition(transactional_id, after, last_epoch=producer.epoch)
        return self._prepared_decision(transactional_id, after, record)

    def _prepared(self, before: Transaction, *, committed: bool) -> Transaction:
        now_ms = self._table.clock.now_ms()
        return msgspec.structs.replace(
            before,
            state=TxnState.PREPARE_COMMIT if committed else TxnState.PREPARE_ABORT,
            previous_producer_id=before.client.id,
            # An empty transaction that is aborted has no start time; it gets the time of its end.
            started_ms=before.started_ms if before.state is TxnState.ONGOING else now_ms,
            updated_ms=now_ms,
        )

    def _prepared_decision(
        self, transactional_id: str, after: Transaction, record: LogRecord
    ) -> Decision[EndTxnResult]:
        ended = EndTxnResult(ErrorCode.NONE, after.successor)
        return Decision(ended, [record], self.send_markers_once_prepared(transactional_id))


def _is_repeated(before: Transaction, producer: Producer) -> bool:
    """Whether the producer repeats the EndTxn that raised its epoch."""
    if before.client_version < EPOCH_PER_TRANSACTION or not _is_decided(before):
        return False
    now = before.successor
    if producer.id == now.id:
        return producer.epoch + 1 == now.epoch <= LAST_CLIENT_EPOCH
    return producer == Producer(before.previous_producer_id, LAST_CLIENT_EPOCH) and now.epoch == 0


def _is_decided(before: Transaction) -> bool:
    return before.state not in (TxnState.EMPTY, TxnState.ONGOING)


def _already_decided(before: Transaction, committed: bool) -> Decision[EndTxnResult]:
    """The result of an end that was decided before: the same, a retriable error, or INVALID_TXN_STATE."""
    if (before.state in _COMMITTING) is not committed:
        return _refused(ErrorCode.INVALID_TXN_STATE)
    if before.state.preparing:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Decision(EndTxnResult(ErrorCode.NONE, before.client))


def _wrong_producer(before: Transaction, producer: Producer) -> Decision[EndTxnResult]:
    known = producer.id == before.client.id
    return _refused(ErrorCode.PRODUCER_FENCED if known else ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def _refused(error: ErrorCode) -> Decision[EndTxnResult]:
    return Decision(EndTxnResult(error))
