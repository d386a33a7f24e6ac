"""A clock that stands still, a consumer that only writes down what it is told, and records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from ottla.base.ids import TopicPartition
from ottla.client.parallel.assigned import Work
from ottla.client.parallel.exchange import Exchange
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
    """Answers `commit` and `committed` as told; keeps the rest in `calls`."""

    calls: list[tuple[str, list[tuple[str, int, int]]]] = field(default_factory=list)
    stored: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    committing: Callable[[], None] = lambda: None

    def _note(self, name: str, places: list[Place]) -> None:
        self.calls.append((name, [(place.topic, place.partition, place.offset) for place in places]))

    def commit(self, *, offsets: list[Place], asynchronous: bool) -> list[Place] | None:
        self._note("commit_async" if asynchronous else "commit", offsets)
        self.committing()
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        for place in offsets:
            self.stored[(place.topic, place.partition)] = (place.offset, place.metadata or "")
        return None if asynchronous else offsets

    def committed(self, places: list[Place], timeout: float) -> list[Place]:
        assert timeout > 0
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        found = []
        for place in places:
            offset, metadata = self.stored.get((place.topic, place.partition), (-1001, ""))
            found.append(Place(place.topic, place.partition, offset, metadata=metadata))
        return found

    def assign(self, places: list[Place]) -> None:
        self._note("assign", places)

    def incremental_assign(self, places: list[Place]) -> None:
        self._note("incremental_assign", places)

    def pause(self, places: list[Place]) -> None:
        self._note("pause", places)

    def resume(self, places: list[Place]) -> None:
        self._note("resume", places)


@dataclass
class Box:
    """Where dead letters are put."""

    letters: list[tuple[Work, Exception]] = field(default_factory=list)

    def put(self, work: Work, error: Exception) -> None:
        self.letters.append((work, error))


def exchange_of(options: Options | None = None, *, assigned: bool = True) -> tuple[Exchange, StillClock, Box]:
    clock, box = StillClock(), Box()
    scheduler = Scheduler(options or Options())
    if assigned:
        scheduler.assign(P0, 0, None)
    return Exchange(scheduler, clock, box), clock, box


def add(exchange: Exchange, offset: int, key: bytes | None = None, partition: TopicPartition = P0) -> None:
    with exchange.lock:
        message = Message(*partition, offset, key, str(offset).encode())
        exchange.scheduler.add(partition, offset, key, message)
        exchange.announce()


def take(exchange: Exchange) -> Work:
    with exchange.lock:
        work = exchange.trade(None, None)
    assert work is not None
    return work
