"""The coordinators of one internal topic: a shard for each partition that this broker leads.

The edge tells who is elected and who resigns, and asks; everything asked of a partition that is not here, or not
yet, fails with the error that sends a client to look again. Promises may be kept before they are returned.

After a failed append a shard starts over from its log, at once the first time, then with a growing pause until
an append is committed again.

Invariants: at most one shard of a partition serves; a shard's leader epoch only grows. Must not know groups,
transactions, event loops. Concurrency: one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

import structlog

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.loader import Loader
from ottla.coordinator.runtime.ports import Scheduler, ShardLog
from ottla.coordinator.runtime.shard import Shard, ShardState
from ottla.coordinator.runtime.state_machine import StateMachine
from ottla.coordinator.runtime.timer_queue import TimerQueue
from ottla.coordinator.runtime.timers import Timers
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")

_PAUSE_MS_MAX: Final = 10_000
_PAUSE_MS_FIRST: Final = 100

_logger = structlog.get_logger(__name__)


class Runtime(Generic[M]):
    """Shards, their timers and their loading."""

    def __init__(
        self,
        topic: str,
        *,
        log: ShardLog,
        make: Callable[[int, Timers], M],
        table: RecordTable,
        clock: Clock,
        scheduler: Scheduler,
        report: Callable[[BaseException], None],
        image: MetadataImage = EMPTY_IMAGE,
    ) -> None:
        """`make` builds the empty machine of a partition; `report` is told of exceptions that nobody awaits."""
        self.topic = topic
        self.log = log
        self.make = make
        self.table = table
        self.clock = clock
        self.scheduler = scheduler
        self.report = report
        self.image = image
        self.timer_queue = TimerQueue(clock, scheduler)
        self._shards: dict[int, Shard[M]] = {}
        self._epochs: dict[int, int] = {}
        self._pauses_ms: dict[int, int] = {}
        self._loader = Loader(self)
        self._to_flush: list[Shard[M]] = []

    # --- leadership and metadata ---

    def elect(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: load it, unless it is being served in that epoch already."""
        known = self._shards.get(partition)
        if known is not None and leader_epoch <= known.leader_epoch:
            return
        self._pauses_ms.pop(partition, None)
        self._replace(partition, leader_epoch)
        if known is not None:
            known.close()
        self._loader.add(self._shards[partition])

    def resign(self, partition: int) -> None:
        """This broker does not lead the partition any more."""
        shard = self._shards.pop(partition, None)
        self._pauses_ms.pop(partition, None)
        if shard is not None:
            shard.close()

    def close(self) -> None:
        """Resign everywhere; what was decided is still appended, but nobody waits for it."""
        for partition in list(self._shards):
            self._shards[partition].flush()
            self.resign(partition)

    def leader_epoch(self, partition: int) -> int:
        """The epoch in which the partition was last led here; -1 if never."""
        return self._epochs.get(partition, -1)

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for shard in list(self._shards.values()):
            if shard.state is ShardState.ACTIVE:
                shard.machine.on_metadata_changed(delta, image)

    # --- operations ---

    def write(self, partition: int, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        """Let the machine decide; the answer comes when its records are committed."""
        shard = self._shards.get(partition)
        return _not_here() if shard is None else shard.write(operation)

    def read(self, partition: int, operation: Callable[[M], R]) -> Promise[R]:
        """Ask the machine; the answer comes when everything it knows is committed."""
        shard = self._shards.get(partition)
        return _not_here() if shard is None else shard.read(operation)

    def write_transactional(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[M], Decision[R]],
        verification: object | None = None,
    ) -> Promise[R]:
        """Like `write`, the records being part of a producer's transaction."""
        shard = self._shards.get(partition)
        if shard is None:
            return _not_here()
        return shard.write_transactional(producer_id, producer_epoch, operation, verification)

    def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        committed: bool,
        transaction_version: int = 0,
    ) -> Promise[None]:
        """End a producer's transaction in the partition."""
        shard = self._shards.get(partition)
        if shard is None:
            return _not_here()
        return shard.complete_transaction(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            committed=committed,
            transaction_version=transaction_version,
        )

    def write_all(self, operation: Callable[[M], Decision[R]]) -> list[Promise[R]]:
        """`write` to every partition that is led here, in their order."""
        return [self._shards[partition].write(operation) for partition in sorted(self._shards)]

    def read_all(self, operation: Callable[[M], R]) -> list[Promise[R]]:
        """`read` from every partition that is led here, in their order."""
        return [self._shards[partition].read(operation) for partition in sorted(self._shards)]

    def is_active(self, partition: int) -> bool:
        """Whether the partition is served here now."""
        shard = self._shards.get(partition)
        return shard is not None and shard.state is ShardState.ACTIVE

    # --- what shards ask for ---

    def flush_soon(self, shard: Shard[M]) -> None:
        """Append the shard's open batch at the end of this turn."""
        if not self._to_flush:
            self.scheduler.call_soon(self._flush)
        self._to_flush.append(shard)

    def start_over(self, shard: Shard[M], error: ErrorCode) -> None:
        """The machine has seen what the log refused: tell `error` to who waits, and load anew."""
        partition = shard.partition
        if self._shards.get(partition) is not shard:
            return
        _logger.warning(
            "coordinator starts over", topic=self.topic, partition=partition, reason=error.name.lower()
        )
        fresh = self._replace(partition, shard.leader_epoch)
        shard.close(error)
        pause_ms = self._pauses_ms.get(partition, 0)
        self._pauses_ms[partition] = min(max(2 * pause_ms, _PAUSE_MS_FIRST), _PAUSE_MS_MAX)
        due_ms = self.timer_queue.now_ms() + pause_ms
        self.scheduler.call_at(due_ms, partial(self._loader.add, fresh))

    def committed(self, shard: Shard[M]) -> None:
        """Appending works again."""
        self._pauses_ms.pop(shard.partition, None)

    def load_failed(self, shard: Shard[M], error: Exception, *, unexpected: bool) -> None:
        _logger.error(
            "coordinator cannot be loaded: its partition answers NOT_COORDINATOR until it is elected again",
            topic=self.topic,
            partition=shard.partition,
            reason=str(error),
        )
        if unexpected:
            self.report(error)

    def _replace(self, partition: int, leader_epoch: int) -> Shard[M]:
        self._epochs[partition] = leader_epoch
        shard = self._shards[partition] = Shard(self, partition, leader_epoch)
        return shard

    def _flush(self) -> None:
        shards, self._to_flush = self._to_flush, []
        for shard in shards:
            shard.flush()


def _not_here() -> Promise[R]:
    promise: Promise[R] = Promise()
    promise.fail(ApiError(ErrorCode.NOT_COORDINATOR))
    return promise
