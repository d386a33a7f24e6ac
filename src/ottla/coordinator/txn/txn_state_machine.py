"""The state machine of one partition of __transaction_state: its transactional ids and their transactions.

This module only dispatches: records to the table, requests to the class that decides them. On loading, every
transaction whose end was decided is completed. An open transaction stays open until the rest of its timeout has
passed. The runtime delays every response until the records it depends on are committed.
"""

from __future__ import annotations

from typing import cast

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.txn.add_partitions import AddPartitions
from ottla.coordinator.txn.completion import Completion, MarkerSender
from ottla.coordinator.txn.end_transaction import EndTransaction
from ottla.coordinator.txn.expiration import TransactionExpiration
from ottla.coordinator.txn.init_producer_id import InitParameters, InitProducerId
from ottla.coordinator.txn.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.txn.responses import (
    EndTxnResult,
    InitProducerIdResult,
    ListFilters,
    TransactionDescription,
    TransactionListing,
)
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import Producer
from ottla.coordinator.txn.transaction_queries import TransactionQueries
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage


class TxnStateMachine:
    """All transactional ids of one shard. Implements `StateMachine`.

    `coordinator_epoch` is the leader epoch of this shard; partitions use it to refuse markers of an older
    coordinator.
    """

    def __init__(
        self,
        settings: TxnSettings,
        timers: Timers,
        clock: Clock,
        markers: MarkerSender,
        coordinator_epoch: int,
    ) -> None:
        self.table = TxnTable(clock, settings)
        self._completion = Completion(self.table, timers, markers, coordinator_epoch)
        self._end_transaction = EndTransaction(self.table, self._completion)
        self._init_producer_id = InitProducerId(self.table, self._end_transaction)
        self._add_partitions = AddPartitions(self.table)
        self._queries = TransactionQueries(self.table, self._completion)
        self._expiration = TransactionExpiration(self.table, timers, self._end_transaction)

    # StateMachine

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        key = cast(TransactionLogKey, record.key)
        self.table.replay(key, cast("TransactionLogValue | None", record.value))

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """No record of this topic is part of a transaction."""

    def on_loaded(self, image: MetadataImage) -> None:
        self.table.image = image
        for transactional_id, transaction in self.table.items():
            if transaction.state.preparing:
                self._completion.begin(transactional_id)
        self._expiration.start()

    def on_unloaded(self) -> None:
        self._completion.stop()

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        # Markers for deleted topics are dropped when they are sent again.
        self.table.image = image

    # Producers

    def init_producer_id(
        self, transactional_id: str, parameters: InitParameters, fresh_id: int | None = None
    ) -> Decision[InitProducerIdResult]:
        """InitProducerId; raises NeedsProducerId if a new producer id is needed and `fresh_id` is None."""
        return self._init_producer_id.decide(transactional_id, parameters, fresh_id)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int = 0,
    ) -> Decision[ErrorCode]:
        """AddPartitionsToTxn and AddOffsetsToTxn.

        `client_version` 2: the client uses a protocol in which every end of a transaction raises the epoch.
        """
        return self._add_partitions.decide(
            transactional_id, producer, partitions, client_version=client_version
        )

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn with verify only: whether each partition is in the producer's transaction."""
        return self._add_partitions.verify(transactional_id, producer, partitions)

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        committed: bool,
        client_version: int = 0,
        fresh_id: int | None = None,
    ) -> Decision[EndTxnResult]:
        """EndTxn; raises NeedsProducerId if the epochs are exhausted and `fresh_id` is None."""
        return self._end_transaction.decide(
            transactional_id, producer, committed=committed, client_version=client_version, fresh_id=fresh_id
        )

    # Administrators

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Raises INVALID_REQUEST or TRANSACTIONAL_ID_NOT_FOUND."""
        return self._queries.describe(transactional_id)

    def list(self, filters: ListFilters) -> list[TransactionListing]:
        return self._queries.list(filters)
