"""The log of the quorum's records: the port, and the adapter to a storage log.

The quorum appends batches that contain their offsets and epoch, one at a time, and is notified when each is
durable. `StorageMetadataLog` writes and syncs batches in an executor, so that the event loop does not wait for a
sync. Rolling and deleting are rare and done by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.base.clock import Clock
from ottla.base.errors import invariant
from ottla.base.executor import Executor
from ottla.records.batch import BatchHeader
from ottla.storage.log.log import Log

Done = Callable[[BaseException | None], None]


class MetadataLog(Protocol):
    """Owner: the quorum, on the event loop."""

    @property
    def start_offset(self) -> int:
        """The first offset that may still be read."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        ...

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Iterate over the batches, from the one that contains `offset`."""
        ...

    def append(self, batch: bytes, done: Done) -> None:
        """Append a batch at `end_offset`; `done` is called when it is durable, or with the error."""
        ...

    def roll(self) -> None:
        """Start a new segment, so that the records before it can be deleted."""
        ...

    def delete_before(self, offset: int) -> None:
        """Move the log start to `offset` and delete segments that lie completely below it."""
        ...

    def restart_at(self, offset: int) -> None:
        """Delete all records and continue at `offset`, durably."""
        ...


class StorageMetadataLog:
    """A storage log as metadata log. Its configuration must sync every append (`flush.messages=1`)."""

    def __init__(self, log: Log, executor: Executor, clock: Clock) -> None:
        invariant(log.config.flush_messages == 1, "the metadata log syncs every append (flush.messages=1)")
        self._log = log
        self._executor = executor
        self._clock = clock

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        return self._log.batches(offset, upto=self._log.log_end_offset)

    def append(self, batch: bytes, done: Done) -> None:
        self._log.append_raw(batch, self._clock.now_ms())
        job = self._log.take_staged()
        if job is None:
            invariant(False, "one append is outstanding at a time")
            return

        def finished(failure: BaseException | None) -> None:
            if failure is None:
                self._log.written(job, self._clock.now_ms())
                self._log.high_watermark = self._log.flushed_offset
            else:
                self._log.fail()
            done(failure)

        self._executor.submit(job.run, finished)

    def roll(self) -> None:
        self._log.roll(self._clock.now_ms())

    def delete_before(self, offset: int) -> None:
        self._log.increment_log_start_offset(offset)
        now_ms = self._clock.now_ms()
        job = self._log.take_deletion(now_ms)
        if job is not None:
            self._log.perform(job)
        for segment in self._log.segments.take_due(now_ms):
            segment.remove()

    def restart_at(self, offset: int) -> None:
        self._log.perform(self._log.take_restart(offset, self._clock.now_ms()))
