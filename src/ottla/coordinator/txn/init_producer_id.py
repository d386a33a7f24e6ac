"""InitProducerId: a producer takes over a transactional id, and whoever held it before is fenced.

- A new id starts with epoch 0; every later start raises the epoch. When the epochs of a producer id run out, a
  new producer id follows and the old one is remembered as the previous.
- A transaction that is still open is aborted first, with a raised epoch, and the client is told to come back
  (CONCURRENT_TRANSACTIONS), as it is while markers are written.
- A producer that names its id and epoch only wants to go on (KIP-360): it is fenced if another one has started
  since, and gets the answer again if it lost it.
- With two-phase commit (KIP-939) a transaction has no timeout; and with `keep_prepared` an open one is not aborted:
  the newcomer gets an epoch of its own and is told in whose name the transaction was written. Only the newcomer
  can end it; nobody can add to it.
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
    """What a producer asks for. `expected` is who it believes to be; None if it is new."""

    timeout_ms: int
    expected: Producer | None = None
    two_phase: bool = False
    keep_prepared: bool = False


class InitProducerId:
    """Decides who holds a transactional id."""

    def __init__(self, table: TxnTable, end_transaction: EndTransaction) -> None:
        self._table = table
        self._end_transaction = end_transaction

    def decide(
        self, transactional_id: str, parameters: InitParameters, fresh_id: int | None
    ) -> Decision[InitProducerIdResult]:
        """`fresh_id` is a producer id that nobody has; raises NeedsProducerId if one is needed and not given."""
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
            # The answer to this request was lost: nobody else has come since, so it is given again.
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
            # The log could not hold both producers.
            return ErrorCode.UNSUPPORTED_VERSION
        if parameters.timeout_ms <= 0 or (
            parameters.timeout_ms > settings.max_timeout_ms and not parameters.two_phase
        ):
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _is_known(self, transactional_id: str, before: Transaction, expected: Producer) -> bool:
        """Whether a producer that wants to go on is the last that started, or was just before its lost answer."""
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
        """A producer starts while a transaction is open."""
        if parameters.expected not in (None, before.client):
            # A request from before that transaction, come late: its producer has gone on since.
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
            # Whoever prepared it was promised its timeout; it may become endless, never shorter.
            timeout_ms=NEVER_TIMES_OUT_MS if parameters.two_phase else before.timeout_ms,
            updated_ms=self._table.clock.now_ms(),
        )
        record = self._table.transition(transactional_id, after, last_epoch=NO_EPOCH)
        return Decision(InitProducerIdResult(ErrorCode.NONE, client, before.producer), [record])


def _refused(error: ErrorCode) -> Decision[InitProducerIdResult]:
    return Decision(InitProducerIdResult(error))
