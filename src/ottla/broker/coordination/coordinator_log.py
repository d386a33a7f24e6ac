"""The coordinator runtime's ports: partitions of an internal topic as its log, the event loop as its scheduler.

Batches of a coordinator are staged, written in a group commit and committed at the high watermark like all others, but
they are not validated like those of clients: control batches and batches without sequence numbers are allowed. Every
call is refused unless this broker leads the partition in the leader epoch of the caller.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime.ports import Batches
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.producers.producer_state import Verification


class LoopScheduler:
    """`coordinator.runtime.ports.Scheduler` over an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        self._loop.call_later(max(0.0, due_ms / 1000 - self._clock.monotonic()), callback)


class CoordinatorLog:
    """`coordinator.runtime.ports.ShardLog` over the replicas of one topic."""

    def __init__(self, topic: str, replicas: Replicas, scheduler: LoopScheduler) -> None:
        self._topic = topic
        self._replicas = replicas
        self._scheduler = scheduler

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
        known = verification if isinstance(verification, Verification) else None
        appended = self._led(partition, leader_epoch).append_own(
            batch, now_ms, verification=known, transaction_version=transaction_version
        )
        return appended.last_offset + 1

    def append_offset(self, partition: int, leader_epoch: int) -> int:
        led = self._led(partition, leader_epoch)
        led.check_append()
        return led.log.log_end_offset

    def end_offset(self, partition: int, leader_epoch: int) -> int:
        return self._led(partition, leader_epoch).log.log_end_offset

    def committed_offset(self, partition: int, leader_epoch: int) -> int:
        return self._led(partition, leader_epoch).high_watermark

    def when_committed(
        self, partition: int, leader_epoch: int, end_offset: int, callback: Callable[[ErrorCode], None]
    ) -> None:
        led = self._led(partition, leader_epoch)
        if end_offset <= led.high_watermark:
            self._scheduler.call_soon(lambda: callback(ErrorCode.NONE))
        else:
            led.wait_committed(end_offset, _AppendCallback(callback))

    def batches(self, partition: int, leader_epoch: int) -> Batches:
        led = self._led(partition, leader_epoch)
        for batch in led.batches():
            led.check_leader(leader_epoch)
            yield batch
        led.check_leader(leader_epoch)

    def batch_bytes_max(self, partition: int) -> int:
        return self._replicas.get(self._topic, partition).log.config.max_message_bytes

    def _led(self, partition: int, leader_epoch: int) -> Partition:
        found = self._replicas.get(self._topic, partition)
        found.check_leader(leader_epoch)
        return found


class _AppendCallback:
    """An `AppendWaiter` that calls a function."""

    __slots__ = ("append_done",)

    def __init__(self, callback: Callable[[ErrorCode], None]) -> None:
        self.append_done = callback
