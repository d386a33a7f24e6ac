"""AddPartitionsToTxn and AddOffsetsToTxn: adds partitions to a transaction, or verifies that they are part of it.

A partition must be part of the transaction before a record of the transaction is written to it. Otherwise no marker
would be sent to the partition. The first partition starts the transaction. While markers are being written no
partition can be added. To a prepared transaction that a new process has kept (KIP-939) no partition can be added at
all.
"""

from __future__ import annotations

import msgspec

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import EPOCH_PER_TRANSACTION, Producer, Transaction
from ottla.coordinator.txn.transitions import TxnState


class AddPartitions:
    """Decides which partitions belong to a transaction."""

    def __init__(self, table: TxnTable) -> None:
        self._table = table

    def decide(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
    ) -> Decision[ErrorCode]:
        """Add all partitions, or none and return the error."""
        before, error = self._writable(transactional_id, producer)
        if before is None:
            return Decision(error)
        ongoing = before.state is TxnState.ONGOING
        if ongoing and partitions <= before.partitions:
            return Decision(ErrorCode.NONE)
        now_ms = self._table.clock.now_ms()
        raising = min(client_version, self._table.transaction_version) >= EPOCH_PER_TRANSACTION
        after = msgspec.structs.replace(
            before,
            state=TxnState.ONGOING,
            partitions=before.partitions | partitions,
            started_ms=before.started_ms if ongoing else now_ms,
            updated_ms=now_ms,
            client_version=EPOCH_PER_TRANSACTION if raising else 0,
        )
        return Decision(ErrorCode.NONE, [self._table.transition(transactional_id, after)])

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """For each partition NONE if it is in the producer's transaction, else TRANSACTION_ABORTABLE."""
        before, error = self._writable(transactional_id, producer)
        if before is None:
            return dict.fromkeys(sorted(partitions), error)
        return {
            each: ErrorCode.NONE if each in before.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in sorted(partitions)
        }

    def _writable(self, transactional_id: str, producer: Producer) -> tuple[Transaction | None, ErrorCode]:
        """The transaction that this producer may write to, or the error."""
        if not transactional_id:
            return None, ErrorCode.INVALID_REQUEST
        before = self._table.get(transactional_id)
        if before is None:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if before.state.preparing:
            return None, ErrorCode.CONCURRENT_TRANSACTIONS
        if producer.id != before.client.id:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.epoch != before.client.epoch:
            return None, ErrorCode.PRODUCER_FENCED
        if before.kept:
            return None, ErrorCode.INVALID_TXN_STATE
        return before, ErrorCode.NONE
