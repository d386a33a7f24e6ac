"""Fakes: a clock that does not move, a consumer that records its calls, and records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.base.ids import TopicPartition
from ottla.client.parallel.assignment import Work
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.options import Options
from ottla.client.parallel.scheduler import Scheduler

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


@dataclass
class StillClock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)


@dataclass
class FakeConsumer:
    """Fake consumer with committed offsets in `stored`; records `calls`, and raises `refusals` in turn."""

    calls: list[tuple[str, list[tuple[str, int, int]]]] = field(default_factory=list)
    stored: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    committing: Callable[[], None] = lambda: None

    def _note(self, name: str, offsets: list[PartitionOffset]) -> None:
        self.calls.append((name, [(entry.topic, entry.partition, entry.offset) for entry in offsets]))

    def commit(self, *, offsets: list[PartitionOffset], asynchronous: bool) -> list[PartitionOffset] | None:
        self._note("commit_async" if asynchronous else "commit", offsets)
        self.committing()
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        for entry in offsets:
            self.stored[(entry.topic, entry.partition)] = (entry.offset, entry.metadata or "")
        return None if asynchronous else offsets

    def committed(self, offsets: list[PartitionOffset], timeout: float) -> list[PartitionOffset]:
        assert timeout > 0
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        found = []
        for entry in offsets:
            offset, metadata = self.stored.get((entry.topic, entry.partition), (-1001, ""))
            found.append(PartitionOffset(entry.topic, entry.partition, offset, metadata=metadata))
        return found

    def assign(self, offsets: list[PartitionOffset]) -> None:
        self._note("assign", offsets)

    def incremental_assign(self, offsets: list[PartitionOffset]) -> None:
        self._note("incremental_assign", offsets)

    def pause(self, offsets: list[PartitionOffset]) -> None:
        self._note("pause", offsets)

    def resume(self, offsets: list[PartitionOffset]) -> None:
        self._note("resume", offsets)


@dataclass
class Box:
    """Where dead letters are put."""

    letters: list[tuple[Work, Exception]] = field(default_factory=list)

    def put(self, work: Work, error: Exception) -> None:
        self.letters.append((work, error))


def dispatcher_of(
    options: Options | None = None, *, assigned: bool = True
) -> tuple[Dispatcher, StillClock, Box]:
    clock, box = StillClock(), Box()
    scheduler = Scheduler(options or Options())
    if assigned:
        scheduler.assign(P0, 0, None)
    return Dispatcher(scheduler, clock, box), clock, box


def add(
    dispatcher: Dispatcher, offset: int, key: bytes | None = None, partition: TopicPartition = P0
) -> None:
    with dispatcher.lock:
        message = Message(*partition, offset, key, str(offset).encode())
        dispatcher.scheduler.add(partition, offset, key, message)
        dispatcher.wake_workers_if_ready()


def take(dispatcher: Dispatcher) -> Work:
    with dispatcher.lock:
        work = dispatcher.next_work(None, None)
    assert work is not None
    return work
