"""The interfaces that a runtime needs: a log to append to and read, and a scheduler.

The broker implements both over replicas and an event loop (`broker.coordination.coordinator_log`), the tests in memory.
Neither may call a callback before the call that registered it has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.base.errors import ErrorCode
from ottla.records.batch import BatchHeader

Batches = Iterator[tuple[BatchHeader, memoryview]]


class ShardLog(Protocol):
    """The partitions of one internal topic that this broker leads."""

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

        The append is refused if the partition is no longer led in `leader_epoch`. `verification` shows that the
        transaction coordinator has verified this transactional batch. For a marker, `transaction_version` is the
        transaction.version of the client, which determines how the epochs of its producer rise.
        """

    def end_offset(self, partition: int) -> int:
        """The offset of the next batch; raises ApiError."""

    def committed_offset(self, partition: int) -> int:
        """All records below this offset are committed; raises ApiError."""

    def when_committed(self, partition: int, end_offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback` once: with NONE when all records below `end_offset` are committed, else with the error."""

    def batches(self, partition: int) -> Batches:
        """All committed batches in order, read in parts; raises ApiError."""

    def batch_bytes_max(self, partition: int) -> int:
        """The maximum size of a batch of the topic."""


class Scheduler(Protocol):
    """Runs callbacks in order. A callback cannot be cancelled."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run the callback after the callbacks that are ready now."""

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        """Run the callback when the monotonic clock (`Clock.monotonic`, in milliseconds) reaches `due_ms`."""
