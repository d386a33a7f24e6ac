"""InitProducerId: a producer takes over a transactional id, and the previous producer is fenced.

- A new transactional id starts with epoch 0; each later call raises the epoch. When the epochs of a producer id are
  exhausted, a new producer id is used and the old one is recorded as the previous one.
- An open transaction is aborted first, with a raised epoch, and the client gets CONCURRENT_TRANSACTIONS, as it does
  while markers are being written. It has to retry.
- A producer that names its id and epoch wants to continue (KIP-360). It is fenced if another producer has started
  since. If it has lost the response, it gets the same response again.
- With two-phase commit (KIP-939) a transaction has no timeout. With `keep_prepared` an open transaction is not
  aborted: the new producer gets a new epoch and the producer that wrote the transaction is returned. Only the new
  producer can end the transaction, and no partition can be added to it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.txn.end_transaction import EndTransaction
from ottla.coordinator.txn.responses import InitProducerIdResult
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    NEVER_TIMES_OUT_MS,
    NO_EPOCH,
    NO_TIME,
    NeedsProducerId,
    Producer,
    Transaction,
    next_producer,
)
from ottla.coordinator.txn.transitions import TxnState


class InitParameters(NamedTuple):
    """Parameters of InitProducerId. `expected` is the producer id and epoch of the client; None if it is new."""

    timeout_ms: int
    expected: Producer | None = None
    two_phase: bool = False
    keep_prepared: bool = False


class InitProducerId:
    """Decides which producer owns a transactional id."""

    def __init__(self, table: TxnTable, end_transaction: EndTransaction) -> None:
        self._table = table
        self._end_transaction = end_transaction

    def decide(
        self, transactional_id: str, parameters: InitParameters, fresh_id: int | None
    ) -> Decision[InitProducerIdResult]:
        """`fresh_id` is an unused producer id; raises NeedsProducerId if one is needed and None is given."""
        error = self._refusal(transactional_id, parameters)
        if error is not ErrorCode.NONE:
            return _refused(error)
        before = self._table.get(transactional_id)
        if before is None:
            if fresh_id is None:
                raise NeedsProducerId("a new transactional id")
            first = Producer(fresh_id, 0)
            return self._initialised(
                transactional_id, parameters, first, previous_id=fresh_id, last_epoch=NO_EPOCH
            )
        if parameters.expected is not None and not self._is_known(
            transactional_id, before, parameters.expected
        ):
            return _refused(ErrorCode.PRODUCER_FENCED)
        if before.state.preparing:
            return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
        if before.state is TxnState.ONGOING:
            return self._with_open_transaction(transactional_id, parameters, before, fresh_id)
        if parameters.expected not in (None, before.client) and before.client.epoch <= LAST_CLIENT_EPOCH:
            # The response to this request was lost and no other producer has started: send it again.
            return self._initialised(
                transactional_id,
                parameters,
                before.client,
                previous_id=before.previous_producer_id,
                last_epoch=self._table.last_epoch(transactional_id),
            )
        return self._initialised(
            transactional_id,
            parameters,
            next_producer(before.client, fresh_id),
            previous_id=before.client.id,
            last_epoch=NO_EPOCH if parameters.expected is None else parameters.expected.epoch,
        )

    def _refusal(self, transactional_id: str, parameters: InitParameters) -> ErrorCode:
        settings = self._table.settings
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if parameters.two_phase and not settings.two_phase_commit:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if parameters.keep_prepared and self._table.transaction_version < 1:
            # Version 0 of the log format cannot store both producers.
            return ErrorCode.UNSUPPORTED_VERSION
        if parameters.timeout_ms <= 0 or (
            parameters.timeout_ms > settings.max_timeout_ms and not parameters.two_phase
        ):
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _is_known(self, transactional_id: str, before: Transaction, expected: Producer) -> bool:
        """Whether `expected` is the current producer, or its previous epoch after a lost response."""
        client = before.client
        if expected == client:
            return True
        last = self._table.last_epoch(transactional_id)
        if last == NO_EPOCH or expected.epoch != last:
            return False
        return expected.id == client.id or (expected.id == before.previous_producer_id and expected.exhausted)

    def _initialised(
        self,
        transactional_id: str,
        parameters: InitParameters,
        producer: Producer,
        *,
        previous_id: int,
        last_epoch: int,
    ) -> Decision[InitProducerIdResult]:
        before = self._table.get(transactional_id)
        after = Transaction(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            previous_producer_id=previous_id,
            timeout_ms=NEVER_TIMES_OUT_MS if parameters.two_phase else parameters.timeout_ms,
            state=TxnState.EMPTY,
            started_ms=NO_TIME,
            updated_ms=self._table.clock.now_ms(),
            client_version=0 if before is None else before.client_version,
        )
        record = self._table.transition(transactional_id, after, last_epoch=last_epoch)
        return Decision(InitProducerIdResult(ErrorCode.NONE, producer), [record])

    def _with_open_transaction(
        self, transactional_id: str, parameters: InitParameters, before: Transaction, fresh_id: int | None
    ) -> Decision[InitProducerIdResult]:
        """Decide a call while a transaction is open."""
        if parameters.expected not in (None, before.client):
            # A delayed request from before that transaction: the producer has continued since.
            return _refused(ErrorCode.PRODUCER_FENCED)
        if parameters.keep_prepared:
            return self._kept(transactional_id, parameters, before, fresh_id)
        record = self._end_transaction.fence(transactional_id, before)
        on_complete = self._end_transaction.send_markers_once_prepared(transactional_id)
        return Decision(InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS), [record], on_complete)

    def _kept(
        self, transactional_id: str, parameters: InitParameters, before: Transaction, fresh_id: int | None
    ) -> Decision[InitProducerIdResult]:
        client = next_producer(before.client, fresh_id)
        after = msgspec.structs.replace(
            before,
            next_producer_id=client.id,
            next_producer_epoch=client.epoch,
            # The timeout of the prepared transaction may become infinite but never shorter.
            timeout_ms=NEVER_TIMES_OUT_MS if parameters.two_phase else before.timeout_ms,
            updated_ms=self._table.clock.now_ms(),
        )
        record = self._table.transition(transactional_id, after, last_epoch=NO_EPOCH)
        return Decision(InitProducerIdResult(ErrorCode.NONE, client, before.producer), [record])


def _refused(error: ErrorCode) -> Decision[InitProducerIdResult]:
    return Decision(InitProducerIdResult(error))
