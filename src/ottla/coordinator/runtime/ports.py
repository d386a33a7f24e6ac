"""What a runtime needs from outside: a log to append to and read, and somebody who calls back.

Both have two implementations: the broker's (`coordination.coordinator_log`, over replicas and an event loop) and a
simulation's. Neither may call back from within the call that asked for it.
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
        batch: memoryview,
        now_ms: int,
        verification: object | None = None,
        *,
        transaction_version: int = 0,
    ) -> int:
        """Stage one batch at the end; the log's end offset behind it. Raises ApiError and appends nothing.

        `verification` is the proof that a transaction coordinator knows of this transactional batch, of a marker
        `transaction_version` says by which rules its producer's epochs rise.
        """

    def end_offset(self, partition: int) -> int:
        """Where the next batch will stand; raises ApiError."""

    def committed_offset(self, partition: int) -> int:
        """Everything below it is committed; raises ApiError."""

    def when_committed(self, partition: int, end_offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Tell once: NONE when everything below `end_offset` is committed, else why that cannot be known."""

    def batches(self, partition: int) -> Batches:
        """Everything that is committed, in order, read bit by bit; raises ApiError."""

    def batch_bytes_max(self, partition: int) -> int:
        """The largest batch that the topic takes."""


class Scheduler(Protocol):
    """Calls back, in order; there is no way to take a call back."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """When what is ready now has been handled."""

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        """When the monotonic clock (`Clock.monotonic`, in milliseconds) has reached `due_ms`."""
