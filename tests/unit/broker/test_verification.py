"""Whether a partition is part of a transaction: asked in order, repeated while the last one ends."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.verification import Verifier
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.promise import Promise
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn import records as txn_records
from ottla.coordinator.txn.answers import Initialised
from ottla.coordinator.txn.completion import Marker
from ottla.coordinator.txn.initialising import Start
from ottla.coordinator.txn.machine import TxnMachine
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import Producer
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.storage.producer_state import NOT_ASKED, Verification
from tests.support.coordination import FakeClock
from tests.support.leaders import Leaders
from tests.support.shards import FakeScheduler, MemoryLog

ID = "mine"
WHERE = TopicPartition("t", 0)
PARTITION = PartitionImage(replicas=(1,), directories=(), isr=(1,), leader=1)
TOPIC = TopicImage("t", uuid.UUID(int=7), {0: PARTITION})
IMAGE = MetadataImage(
    features={"transaction.version": 2}, topics=TopicsImage({"t": TOPIC}, {TOPIC.topic_id: TOPIC})
)


class Markers:
    """Keeps markers until they are let go."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Marker, Any]] = []

    def send(self, marker: Marker, told: Any) -> None:
        self.waiting.append((marker, told))

    def arrive(self) -> None:
        for marker, told in self.waiting:
            told(dict.fromkeys(marker.partitions, ErrorCode.NONE))
        self.waiting.clear()


class Stage:
    """A transaction coordinator over a log in memory, a partition, and one transactional producer."""

    def __init__(self, **settings: str) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.log = MemoryLog()
        self.leaders = Leaders(self.clock, "t")
        self.markers = Markers()
        config = DynamicConfig(BrokerConfig(settings), 1)
        self.runtime: Runtime[TxnMachine] = Runtime(
            "__transaction_state",
            log=self.log,
            make=lambda _, timers: TxnMachine(
                TxnSettings(config), timers, self.clock, self.markers, lambda: 0
            ),
            table=RecordTable(vars(txn_records).values()),
            clock=self.clock,
            scheduler=self.scheduler,
            report=self._report,
            image=IMAGE,
        )
        self.verifier = Verifier(
            self.runtime, lambda _: 0, self.leaders.replicas, config, self.clock, self.scheduler
        )
        self.runtime.elect(0, 0)
        self.producer = self.initialise()

    def _report(self, error: BaseException) -> None:
        raise error

    def run(self) -> None:
        """Commit everything that comes of what is under way now."""
        self.scheduler.run()
        self.log.commit()
        self.scheduler.run()
        self.log.commit()
        self.leaders.settle()

    def initialise(self) -> Producer:
        self.run()
        promise: Promise[Initialised] = self.runtime.write(
            0, lambda machine: machine.initialise(ID, Start(60_000), 17)
        )
        self.run()
        return promise.result().producer

    def ask(
        self, sequence: int = 0, *, add: bool = True, abortable: bool = True
    ) -> Promise[Verification | None]:
        return self.verifier.ask(ID, self.producer, WHERE, sequence, add=add, abortable=abortable)

    def append(self, sequence: int, guard: Verification | None) -> int:
        return self.leaders.append("t", *self.producer, sequence, guard)

    def end(self) -> None:
        """Decide the end; its markers do not arrive yet."""
        ended = self.runtime.write(
            0, lambda machine: machine.end(ID, self.producer, committed=True, client_version=2)
        )
        self.run()
        self.producer = ended.result().producer


def code_of(promise: Promise[Verification | None]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        promise.result()
    return caught.value.code


def test_the_first_batch_makes_its_partition_part_of_the_transaction() -> None:
    stage = Stage()
    asked = stage.ask()
    assert not asked.done
    stage.run()
    assert stage.append(0, asked.result()) == 0
    assert stage.ask(1).result() is None
    assert stage.append(1, None) == 1


def test_an_older_client_must_have_named_the_partition() -> None:
    stage = Stage()
    early = stage.ask(add=False)
    stage.run()
    assert code_of(early) is ErrorCode.TRANSACTION_ABORTABLE
    untold = stage.ask(add=False, abortable=False)
    stage.run()
    assert code_of(untold) is ErrorCode.INVALID_TXN_STATE
    stage.runtime.write(0, lambda machine: machine.add_partitions(ID, stage.producer, frozenset({WHERE})))
    stage.run()
    asked = stage.ask(add=False)
    stage.run()
    assert stage.append(0, asked.result()) == 0


def test_a_fenced_producer_is_told_that_its_epoch_is_old() -> None:
    stage = Stage()
    stage.producer = Producer(stage.producer.id, stage.producer.epoch - 1)
    asked = stage.ask()
    stage.run()
    assert code_of(asked) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_batches_that_follow_wait_for_those_before() -> None:
    stage = Stage()
    order: list[int] = []
    for sequence in range(3):
        stage.ask(sequence).when_done(
            lambda guard, _, sequence=sequence: order.append(stage.append(sequence, guard))  # type: ignore[misc]
        )
    assert order == []
    stage.run()
    assert order == [0, 1, 2]
    assert stage.ask(3).result() is None


def test_while_the_last_transaction_ends_the_question_is_repeated() -> None:
    stage = Stage()
    first = stage.ask()
    stage.run()
    stage.append(0, first.result())
    stage.end()
    asked = stage.ask()
    stage.run()
    assert not asked.done
    stage.clock.now += 3
    stage.run()
    assert not asked.done
    stage.markers.arrive()
    stage.run()
    stage.clock.now += 20
    stage.run()
    assert asked.result() is not None


def test_it_is_not_repeated_for_ever() -> None:
    stage = Stage()
    first = stage.ask()
    stage.run()
    stage.append(0, first.result())
    stage.end()
    asked = stage.ask()
    for _ in range(100):
        stage.run()
        stage.clock.now += 2
    assert code_of(asked) is ErrorCode.CONCURRENT_TRANSACTIONS
    later = stage.ask()
    stage.markers.arrive()
    stage.run()
    stage.clock.now += 20
    stage.run()
    assert later.result() is not None


def test_nothing_is_asked_where_verification_is_off_unless_it_is_an_order() -> None:
    stage = Stage(**{"transaction.partition.verification.enable": "false"})
    assert stage.ask(add=False).result() is NOT_ASKED
    assert not stage.ask(add=True).done


def test_a_partition_that_is_not_here_and_a_coordinator_that_is_not_here() -> None:
    stage = Stage()
    nowhere = stage.verifier.ask(ID, stage.producer, TopicPartition("u", 0), 0, add=True, abortable=True)
    assert code_of(nowhere) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stage.runtime.resign(0)
    assert code_of(stage.ask()) is ErrorCode.NOT_COORDINATOR
