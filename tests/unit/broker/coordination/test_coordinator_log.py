"""The runtime over a real log: what is appended comes back, committed, after a restart of the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.coordinator_log import CoordinatorLog, LoopScheduler
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.loader import RETRY_MS
from ottla.coordinator.runtime.runtime import Runtime
from ottla.metadata.image import PartitionImage
from ottla.replication.partition import Partition
from tests.support.coordination import FakeClock
from tests.support.leaders import NODE, Leaders
from tests.support.shards import TABLE, FakeLease, FakeScheduler, Words, say


class Serving:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.leaders = Leaders(self.clock, "__words")
        self.log = CoordinatorLog("__words", self.leaders.replicas, cast(LoopScheduler, self.scheduler))
        self.machines: list[Words] = []
        self.reported: list[BaseException] = []
        self.runtime: Runtime[Words] = Runtime(
            "__words",
            log=self.log,
            make=self._make,
            table=TABLE,
            clock=self.clock,
            scheduler=self.scheduler,
            lease=FakeLease(),
            write_timeout_ms=5_000,
            report=self.reported.append,
        )

    def _make(self, partition: int, leader_epoch: int, timers: object) -> Words:
        self.machines.append(Words(partition, leader_epoch, timers))  # type: ignore[arg-type]
        return self.machines[-1]

    def lead(self, leader_epoch: int, *, leader: int = NODE) -> Partition:
        """Replace the leader epoch of the partition."""
        partition = self.leaders.get("__words", 0)
        partition.become(
            PartitionImage(
                replicas=(NODE, 2), directories=(), isr=(NODE,), leader=leader, leader_epoch=leader_epoch
            )
        )
        return partition

    def run(self) -> None:
        while self.scheduler.turn():
            self.leaders.settle()


def test_writes_markers_and_transactions_come_back() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    plain = serving.runtime.write(0, say("a", 3))
    verification = serving.leaders.get("__words", 0).verify(9, 0, -1, 0)
    pending = serving.runtime.write_transactional(0, 9, 0, say("b"), verification)
    ended = serving.runtime.complete_transaction(0, 9, 0, 0, committed=True)
    assert not plain.done
    serving.run()
    serving.leaders.settle()
    assert (plain.result(), pending.result(), ended.result()) == ("a", "b", None)
    serving.lead(1)
    serving.runtime.elect(0, 1)
    serving.run()
    first, again = serving.machines
    assert again.counts == first.counts == {"a": 3, "b": 1}
    assert again.stamps == first.stamps


def test_a_transaction_without_verification_is_refused() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    refused = serving.runtime.write_transactional(0, 9, 0, say("b"))
    with pytest.raises(ApiError, match="INVALID_TXN_STATE"):
        refused.result()
    assert serving.machines[0].pending == {}


def test_the_callback_for_a_committed_offset_is_deferred() -> None:
    serving = Serving()
    notified: list[ErrorCode] = []
    serving.log.when_committed(0, 0, 0, notified.append)
    assert notified == []
    serving.scheduler.run()
    assert notified == [ErrorCode.NONE]


def test_a_partition_that_is_not_here_is_refused() -> None:
    serving = Serving()
    for look_up in (serving.log.end_offset, serving.log.committed_offset, serving.log.append_offset):
        with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            look_up(5, 0)
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        serving.log.batch_bytes_max(5)


def test_an_offline_log_fails_the_coordinator() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    partition = serving.leaders.get("__words", 0)
    waiting = serving.runtime.write(0, say("a"))
    serving.scheduler.turn()
    partition.log.fail()
    partition.failed()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        waiting.result()
    serving.run()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        serving.runtime.write(0, say("b")).result()
    assert serving.reported == []


def test_an_offline_log_fails_requests_that_wait_for_no_commit() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    assert serving.runtime.read(0, lambda machine: machine.counts).result() == {}
    partition = serving.leaders.get("__words", 0)
    partition.log.fail()
    partition.failed()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        serving.runtime.read(0, lambda machine: machine.counts).result()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        serving.runtime.write(0, lambda _: Decision("heartbeat")).result()


def test_an_append_of_an_earlier_leader_epoch_is_refused() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    partition = serving.lead(1)
    end_offset = partition.log.log_end_offset
    refused = serving.runtime.write(0, say("a"))
    serving.scheduler.turn()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        refused.result()
    assert partition.log.log_end_offset == end_offset
    serving.runtime.elect(0, 1)
    serving.run()
    accepted = serving.runtime.write(0, say("a"))
    serving.run()
    serving.leaders.settle()
    assert accepted.result() == "a"


def test_every_call_of_another_leader_epoch_is_refused() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    for text in "ab":
        serving.runtime.write(0, say(text))
        serving.run()
    serving.leaders.settle()
    reading = serving.log.batches(0, 0)
    next(reading)
    serving.lead(1)
    calls: list[Callable[[], object]] = [
        lambda: serving.log.append(0, 0, memoryview(b""), 0),
        lambda: serving.log.append_offset(0, 0),
        lambda: serving.log.end_offset(0, 0),
        lambda: serving.log.committed_offset(0, 0),
        lambda: serving.log.when_committed(0, 0, 1, lambda _: None),
        lambda: list(serving.log.batches(0, 0)),
        lambda: next(reading),
    ]
    for call in calls:
        with pytest.raises(ApiError, match="FENCED_LEADER_EPOCH"):
            call()
    assert len(list(serving.log.batches(0, 1))) == 2


def test_a_lost_leadership_closes_the_coordinator_before_it_is_notified() -> None:
    serving = Serving()
    serving.runtime.elect(0, 0)
    serving.run()
    waiting = serving.runtime.write(0, say("a"))
    serving.scheduler.turn()
    serving.lead(1, leader=2)
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        waiting.result()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        serving.runtime.read(0, lambda machine: machine.counts).result()
    assert len(serving.machines) == 1


def test_an_election_that_is_known_before_the_log_is_led_is_loaded_later() -> None:
    serving = Serving()
    serving.runtime.elect(0, 3)
    serving.run()
    assert not serving.runtime.is_active(0)
    serving.lead(3)
    serving.scheduler.advance(RETRY_MS)
    assert serving.runtime.is_active(0)


def test_the_loop_calls_back_at_the_time_of_the_clock() -> None:
    async def scene() -> list[str]:
        loop = asyncio.get_running_loop()
        clock = FakeClock()
        scheduler = LoopScheduler(loop, clock)
        called: list[str] = []
        done = asyncio.Event()
        scheduler.call_at(clock.now + 1, lambda: (called.append("later"), done.set())[0])
        scheduler.call_at(clock.now - 50, lambda: called.append("overdue"))
        scheduler.call_soon(lambda: called.append("soon"))
        await done.wait()
        return called

    assert asyncio.run(scene()) == ["soon", "overdue", "later"]
