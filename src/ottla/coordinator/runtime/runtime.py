"""The coordinators of one internal topic: one shard for each partition that this broker leads.

The caller reports elections and resignations and sends operations. An election is announced when the metadata has it,
and started when the log is ready; leadership that is lost ends at once. An operation on a partition that is not led
here, or not loaded yet, fails with an error after which a client looks for the coordinator again. A returned promise
may already be complete.

After a failed append a shard is loaded again from its log: at once the first time, then after a growing delay until
an append is committed again.

Invariants: at most one shard of a partition is active; the leader epoch of a partition's shards only grows. This
module is independent of groups, transactions and event loops. Concurrency: one thread.
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
from ottla.coordinator.runtime.ports import LeadershipLease, Scheduler, ShardLog
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
    """The shards of a topic, their timers and their loader."""

    def __init__(
        self,
        topic: str,
        *,
        log: ShardLog,
        make: Callable[[int, int, Timers], M],
        table: RecordTable,
        clock: Clock,
        scheduler: Scheduler,
        lease: LeadershipLease,
        write_timeout_ms: int,
        report: Callable[[BaseException], None],
        image: MetadataImage = EMPTY_IMAGE,
    ) -> None:
        """`make` creates the empty state machine of a partition in a leader epoch.

        A request fails if what it waits for is not committed within `write_timeout_ms`.

        `report` gets exceptions that no caller receives.
        """
        self.topic = topic
        self.log = log
        self.make = make
        self.table = table
        self.clock = clock
        self.scheduler = scheduler
        self.lease = lease
        self.write_timeout_ms = write_timeout_ms
        self.report = report
        self.image = image
        self.timer_queue = TimerQueue(clock, scheduler)
        self._shards: dict[int, Shard[M]] = {}
        self._pauses_ms: dict[int, int] = {}
        self._unstarted: set[Shard[M]] = set()
        self._loader = Loader(self)
        self._to_flush: list[Shard[M]] = []

    # --- leadership and metadata ---

    def elect(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition, and its log is ready: load it."""
        self.announce(partition, leader_epoch)
        self.start(partition, leader_epoch)

    def announce(self, partition: int, leader_epoch: int) -> None:
        """This broker is the new leader; until its log is ready, requests fail as they do while it is loaded."""
        known = self._shards.get(partition)
        if known is not None and leader_epoch <= known.leader_epoch:
            return
        self._pauses_ms.pop(partition, None)
        self._unstarted.add(self._replace(partition, leader_epoch))
        if known is not None:
            self._unstarted.discard(known)
            known.close()

    def start(self, partition: int, leader_epoch: int) -> None:
        """The log of an announced leader is ready: load it, unless another epoch has been announced since."""
        shard = self._shards.get(partition)
        if shard in self._unstarted and shard is not None and shard.leader_epoch == leader_epoch:
            self._unstarted.discard(shard)
            self._loader.add(shard)

    def resign(self, partition: int) -> None:
        """This broker no longer leads the partition."""
        shard = self._shards.pop(partition, None)
        self._pauses_ms.pop(partition, None)
        if shard is not None:
            self._unstarted.discard(shard)
            shard.close()

    def close(self) -> None:
        """Append the open batches and resign from all partitions, without waiting for the commits."""
        for partition in list(self._shards):
            self._shards[partition].flush()
            self.resign(partition)

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for shard in list(self._shards.values()):
            if shard.state is ShardState.ACTIVE:
                shard.machine.on_metadata_changed(delta, image)

    # --- operations ---

    def write(self, partition: int, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        """Decide an operation; the response is sent when its records are committed."""
        shard = self._shards.get(partition)
        return _not_here() if shard is None else shard.write(operation)

    def read(self, partition: int, operation: Callable[[M], R]) -> Promise[R]:
        """Read the state; the response is sent when all records replayed before it are committed."""
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
        """Like `write`, but the records are part of a producer's transaction."""
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
        """Write the marker that ends a producer's transaction in the partition."""
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
        """`write` to every partition that this broker leads, in ascending order."""
        return [self._shards[partition].write(operation) for partition in sorted(self._shards)]

    def read_all(self, operation: Callable[[M], R]) -> list[Promise[R]]:
        """`read` from every partition that this broker leads, in ascending order."""
        return [self._shards[partition].read(operation) for partition in sorted(self._shards)]

    def is_active(self, partition: int) -> bool:
        """Whether the shard of the partition is active."""
        shard = self._shards.get(partition)
        return shard is not None and shard.state is ShardState.ACTIVE

    # --- called by shards ---

    def flush_soon(self, shard: Shard[M]) -> None:
        """Append the shard's open batch at the end of this iteration of the event loop."""
        if not self._to_flush:
            self.scheduler.call_soon(self._flush)
        self._to_flush.append(shard)

    def reload(self, shard: Shard[M], error: ErrorCode) -> None:
        """Load the shard again, because the log refused replayed records; waiting requests fail with `error`."""
        partition = shard.partition
        if self._shards.get(partition) is not shard:
            return
        _logger.warning(
            "coordinator is reloaded after a failed append",
            topic=self.topic,
            partition=partition,
            reason=error.name.lower(),
        )
        fresh = self._replace(partition, shard.leader_epoch)
        shard.close(error)
        pause_ms = self._pauses_ms.get(partition, 0)
        self._pauses_ms[partition] = min(max(2 * pause_ms, _PAUSE_MS_FIRST), _PAUSE_MS_MAX)
        due_ms = self.timer_queue.now_ms() + pause_ms
        self.scheduler.call_at(due_ms, partial(self._loader.add, fresh))

    def committed(self, shard: Shard[M]) -> None:
        """An append was committed: reset the reload delay."""
        self._pauses_ms.pop(shard.partition, None)

    def load_failed(self, shard: Shard[M], error: Exception, *, unexpected: bool) -> None:
        _logger.error(
            "coordinator cannot be loaded; requests to it fail with NOT_COORDINATOR until it is elected again",
            topic=self.topic,
            partition=shard.partition,
            reason=str(error),
        )
        if unexpected:
            self.report(error)

    def _replace(self, partition: int, leader_epoch: int) -> Shard[M]:
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
