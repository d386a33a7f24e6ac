"""The interfaces that a runtime needs: a log to append to and read, a scheduler, and a lease on leadership.

The broker implements log and scheduler over replicas and an event loop (`broker.coordination.coordinator_log`), the
tests in memory. Neither may call a callback before the call that registered it has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from ottla.base.errors import ErrorCode
from ottla.records.batch import BatchHeader

Batches = Iterator[tuple[BatchHeader, memoryview]]

EPOCH_ENDED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors of a log that is no longer led in the leader epoch of the caller."""


class ShardLog(Protocol):
    """The partitions of one internal topic that this broker leads.

    Every call names the leader epoch in which the caller was elected. It raises ApiError, and changes nothing, if
    this broker does not lead the partition in exactly that epoch.
    """

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: memoryview,
        now_ms: int,
        verification: object | None = None,
        *,
        transaction_version: int = 0,
    ) -> int:
        """Append one batch; returns the log end offset after it. Raises ApiError and appends nothing.

        `verification` shows that the transaction coordinator has verified this transactional batch. For a marker,
        `transaction_version` is the transaction.version of the client, which determines how the epochs of its
        producer rise.
        """

    def append_offset(self, partition: int, leader_epoch: int) -> int:
        """The offset of the next batch; raises the ApiError with which an append would be refused now."""

    def end_offset(self, partition: int, leader_epoch: int) -> int:
        """The end of the log, committed or not; raises ApiError."""

    def committed_offset(self, partition: int, leader_epoch: int) -> int:
        """All records below this offset are committed; raises ApiError."""

    def when_committed(
        self, partition: int, leader_epoch: int, end_offset: int, callback: Callable[[ErrorCode], None]
    ) -> None:
        """Call `callback` once: with NONE when all records below `end_offset` are committed, else with the error.

        The error is reported at once when the epoch ends.
        """

    def batches(self, partition: int, leader_epoch: int) -> Batches:
        """All committed batches in order, read in parts; raises ApiError, also when the epoch ends meanwhile."""

    def batch_bytes_max(self, partition: int) -> int:
        """The maximum size of a batch of the topic."""


class LeadershipLease(Protocol):
    """Whether leadership that this broker has by its image is known to hold in the cluster.

    A response that waits for no commit shows the state of this broker alone. It is sent only while the lease holds:
    otherwise another broker may have been elected, and may have committed other state.
    """

    def holds(self) -> bool: ...


class Scheduler(Protocol):
    """Runs callbacks in order. A callback cannot be cancelled."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run the callback after the callbacks that are ready now."""

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        """Run the callback when the monotonic clock (`Clock.monotonic`, in milliseconds) reaches `due_ms`."""
