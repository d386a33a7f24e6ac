"""From a prepared transaction to a complete one: markers to all its partitions, then the record that says so.

Every partition of the transaction must acknowledge its marker, or be gone: a partition of a deleted topic waits
for nobody. What fails is sent again after a pause, for as long as it takes; the coordinator never gives up and
never changes its mind. After a reload it begins anew with all partitions, and a marker that comes twice ends
nothing twice.

Concurrency: one thread. Markers are told of in any order, also before `send` returns; an answer to an attempt
that is not the last one any more, or to a coordinator that has been unloaded, is ignored.
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

# The partition has no transaction of this epoch and will not get one: there is nothing left to end.
_NOTHING_TO_END: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

MarkerResults = Mapping[TopicPartition, ErrorCode]


class TxnMarkerEntry(NamedTuple):
    """The end of a transaction, for some of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    partitions: list[TopicPartition]
    transaction_version: int


class MarkerSender(Protocol):
    """Brings markers to the leaders of partitions."""

    def send(self, marker: TxnMarkerEntry, told: Callable[[MarkerResults], None]) -> None:
        """Call `told` exactly once with what became of each partition; one left out counts as not written."""


class _PendingMarkers:
    """The partitions of one transaction that have not acknowledged yet."""

    __slots__ = ("attempt", "partitions")

    def __init__(self, partitions: frozenset[TopicPartition]) -> None:
        self.partitions = set(partitions)
        self.attempt = 0


class Completion:
    """The transactions of a shard that are being completed."""

    def __init__(
        self, table: TxnTable, timers: Timers, sender: MarkerSender, coordinator_epoch: Callable[[], int]
    ) -> None:
        self._table = table
        self._timers = timers
        self._sender = sender
        self._coordinator_epoch = coordinator_epoch
        self._waiting: dict[str, _PendingMarkers] = {}

    def begin(self, transactional_id: str) -> None:
        """The end is committed: send the markers."""
        self._waiting[transactional_id] = _PendingMarkers(self._table[transactional_id].partitions)
        self._send(transactional_id)

    def stop(self) -> None:
        """Coordination ended here; who comes next begins anew."""
        self._waiting.clear()

    def left(self, transactional_id: str) -> frozenset[TopicPartition]:
        """The partitions of a transaction that have no marker yet."""
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
            self._coordinator_epoch(),
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
        # A decision of its own: the markers may have been told of in the midst of another one.
        self._timers.schedule(("markers", transactional_id), 0, partial(self._complete, transactional_id))

    def _complete(self, transactional_id: str) -> Decision[None]:
        del self._waiting[transactional_id]
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
