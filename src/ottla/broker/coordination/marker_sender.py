"""Appends the markers that end transactions to the partitions that this broker leads.

A marker takes effect when it is committed in the partition. Markers for partitions of __consumer_offsets are appended
by the group coordinator, so that its state machine applies offsets in log order. If that coordinator is not ready, the
error is NOT_LEADER_OR_FOLLOWER, after which the sender of markers retries.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.metadata.topic_names import GROUP_TOPIC
from ottla.records.control import EndTxnMarker
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas

MarkerResults = dict[TopicPartition, ErrorCode]

_NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


class LocalMarkerSender:
    """`coordinator.txn.completion.MarkerSender` for partitions of this broker."""

    def __init__(self, replicas: Replicas, groups: Runtime[GroupStateMachine], clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    def send(self, marker: TxnMarkerEntry, on_done: Callable[[MarkerResults], None]) -> None:
        """Append the marker to all its partitions and call `on_done` once with the error code of each."""
        pending = PendingMarker(len(marker.partitions), on_done)
        for partition in marker.partitions:
            if partition.topic == GROUP_TOPIC:
                self._end_offsets(marker, partition, pending)
            else:
                self._append(marker, partition, pending)

    def _find(self, where: TopicPartition) -> Partition:
        """The replica of this broker; as in Kafka a partition of other brokers only is unknown here."""
        try:
            return self._replicas.get(*where)
        except ApiError as error:
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error
            raise

    def _append(self, marker: TxnMarkerEntry, where: TopicPartition, pending: PendingMarker) -> None:
        try:
            partition = self._find(where)
            appended = partition.append_marker(
                EndTxnMarker(marker.committed, marker.coordinator_epoch),
                marker.producer_id,
                marker.producer_epoch,
                self._clock.now_ms(),
                transaction_version=marker.transaction_version,
            )
        except ApiError as error:
            pending.done(where, error.code)
            return
        partition.wait_committed(appended.last_offset + 1, _MarkerWaiter(where, pending))

    def _end_offsets(self, marker: TxnMarkerEntry, where: TopicPartition, pending: PendingMarker) -> None:
        try:
            self._find(where)
        except ApiError as error:
            pending.done(where, error.code)
            return
        promise = self._groups.complete_transaction(
            where.partition,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            committed=marker.committed,
            transaction_version=marker.transaction_version,
        )
        promise.when_done(partial(_offsets_ended, pending, where))


def _offsets_ended(
    pending: PendingMarker, where: TopicPartition, value: None, error: BaseException | None
) -> None:
    if error is None:
        pending.done(where, ErrorCode.NONE)
    elif not isinstance(error, ApiError):
        pending.done(where, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        not_ready = error.code in _NOT_READY
        pending.done(where, ErrorCode.NOT_LEADER_OR_FOLLOWER if not_ready else error.code)


class PendingMarker:
    """One marker whose partitions have not all completed."""

    __slots__ = ("_left", "_on_done", "_results")

    def __init__(self, count: int, on_done: Callable[[MarkerResults], None]) -> None:
        self._left = count
        self._results: MarkerResults = {}
        self._on_done = on_done

    def done(self, where: TopicPartition, error: ErrorCode) -> None:
        self._results[where] = error
        self._left -= 1
        if self._left == 0:
            self._on_done(self._results)


class _MarkerWaiter:
    """Waits until a marker is committed in one partition."""

    __slots__ = ("_pending", "_where")

    def __init__(self, where: TopicPartition, pending: PendingMarker) -> None:
        self._where = where
        self._pending = pending

    def append_done(self, error: ErrorCode) -> None:
        self._pending.done(self._where, error)
