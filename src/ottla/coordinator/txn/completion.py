"""Completes prepared transactions: sends markers to all partitions, then appends the completion record.

Every partition of the transaction must acknowledge its marker, unless the partition no longer exists. A failed marker
is sent again after a delay, without a limit: the coordinator never changes the result. After a reload it sends all
markers again. A marker that a partition gets twice has no effect the second time.

Concurrency: one thread. Results may arrive in any order, also before `send` returns. A result of an attempt that is
not the latest one, or of a coordinator that has been unloaded, is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import msgspec

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import NO_EPOCH, NO_PRODUCER_ID
from ottla.coordinator.txn.transitions import TxnState

RETRY_MS: Final = 100

# The partition has no transaction of this epoch and will not get one: there is nothing to end.
_NOTHING_TO_END: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

MarkerResults = Mapping[TopicPartition, ErrorCode]


class TxnMarkerEntry(NamedTuple):
    """The marker of a transaction and the partitions to write it to."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: list[TopicPartition]
    transaction_version: int


class MarkerSender(Protocol):
    """Sends markers to the leaders of partitions."""

    def send(self, marker: TxnMarkerEntry, callback: Callable[[MarkerResults], None]) -> None:
        """Call `callback` exactly once with the result of each partition; a missing one counts as not written."""


class _PendingMarkers:
    """The partitions of one transaction that have not acknowledged their marker."""

    __slots__ = ("attempt", "partitions")

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = set(partitions)
        self.attempt = 0


class Completion:
    """The transactions of a shard that wait for their markers."""

    def __init__(self, table: TxnTable, timers: Timers, sender: MarkerSender, coordinator_epoch: int) -> None:
        self._table = table
        self._timers = timers
        self._sender = sender
        self._coordinator_epoch = coordinator_epoch
        self._waiting: dict[str, _PendingMarkers] = {}

    def begin(self, transactional_id: str) -> None:
        """Send the markers. The prepare record must be committed."""
        self._waiting[transactional_id] = _PendingMarkers(self._table[transactional_id].partitions)
        self._send(transactional_id)

    def stop(self) -> None:
        """Forget all transactions; the next coordinator sends their markers again."""
        self._waiting.clear()

    def pending_partitions(self, transactional_id: str) -> frozenset[TopicPartition]:
        """The partitions of a transaction that have not acknowledged their marker."""
        waiting = self._waiting.get(transactional_id)
        return self._table[transactional_id].partitions if waiting is None else frozenset(waiting.partitions)

    def _send(self, transactional_id: str) -> None:
        waiting = self._waiting[transactional_id]
        waiting.partitions = {each for each in waiting.partitions if self._table.has_partition(*each)}
        if not waiting.partitions:
            self._complete_soon(transactional_id)
            return
        waiting.attempt += 1
        transaction = self._table[transactional_id]
        marker = TxnMarkerEntry(
            transaction.producer_id,
            transaction.producer_epoch,
            self._coordinator_epoch,
            transaction.state is TxnState.PREPARE_COMMIT,
            sorted(waiting.partitions),
            transaction.client_version,
        )
        self._sender.send(marker, partial(self._on_results, transactional_id, waiting, waiting.attempt))

    def _on_results(
        self, transactional_id: str, waiting: _PendingMarkers, attempt: int, results: MarkerResults
    ) -> None:
        if self._waiting.get(transactional_id) is not waiting or waiting.attempt != attempt:
            return
        for partition, error in results.items():
            if error is ErrorCode.NONE or error in _NOTHING_TO_END:
                waiting.partitions.discard(partition)
        if waiting.partitions:
            again = partial(self._send_again, transactional_id)
            self._timers.schedule(("markers", transactional_id), RETRY_MS, again)
        else:
            self._complete_soon(transactional_id)

    def _send_again(self, transactional_id: str) -> Decision[None]:
        self._send(transactional_id)
        return Decision(None)

    def _complete_soon(self, transactional_id: str) -> None:
        # This is a separate decision, because results may arrive during another decision.
        self._timers.schedule(("markers", transactional_id), 0, partial(self._complete, transactional_id))

    def _complete(self, transactional_id: str) -> Decision[None]:
        self._waiting.pop(transactional_id, None)  # missing if this decision could not be appended before
        before = self._table[transactional_id]
        committed = before.state is TxnState.PREPARE_COMMIT
        after = msgspec.structs.replace(
            before,
            producer_id=before.successor.id,
            producer_epoch=before.successor.epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            state=TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=self._table.clock.now_ms(),
        )
        return Decision(None, [self._table.transition(transactional_id, after)])
