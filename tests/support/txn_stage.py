"""A transaction coordinator over a log in memory, one led partition, and one transactional producer."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.txn_partitions import LocalTxnPartitions
from ottla.broker.coordination.verification import TxnVerifier
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn import records as txn_records
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.responses import InitProducerIdResult
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import Producer
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.storage.producers.producer_state import Verification
from tests.support.coordination import FakeClock
from tests.support.leaders import Leaders
from tests.support.shards import FakeLease, FakeScheduler, MemoryLog

ID = "mine"
WHERE = TopicPartition("t", 0)
PARTITION = PartitionImage(replicas=(1,), directories=(), isr=(1,), leader=1)
TOPIC = TopicImage("t", uuid.UUID(int=7), {0: PARTITION})
IMAGE = MetadataImage(
    features={"transaction.version": 2}, topics=TopicsImage({"t": TOPIC}, {TOPIC.topic_id: TOPIC})
)


class Markers:
    """Keeps markers until the test completes them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[TxnMarkerEntry, Any]] = []

    def send(self, marker: TxnMarkerEntry, on_result: Any) -> None:
        self.waiting.append((marker, on_result))

    def arrive(self) -> None:
        for marker, on_result in self.waiting:
            on_result(dict.fromkeys(marker.partitions, ErrorCode.NONE))
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
        self.runtime: Runtime[TxnStateMachine] = Runtime(
            "__transaction_state",
            log=self.log,
            make=lambda _, leader_epoch, timers: TxnStateMachine(
                TxnSettings(config), timers, self.clock, self.markers, leader_epoch
            ),
            table=RecordTable(vars(txn_records).values()),
            clock=self.clock,
            scheduler=self.scheduler,
            lease=FakeLease(),
            write_timeout_ms=5_000,
            report=self._report,
            image=IMAGE,
        )
        self.verifier = TxnVerifier(
            LocalTxnPartitions(self.runtime, lambda _: 0),
            self.leaders.replicas,
            config,
            self.clock,
            self.scheduler,
        )
        self.runtime.elect(0, 0)
        self.producer = self.init_producer_id()

    def _report(self, error: BaseException) -> None:
        raise error

    def run(self) -> None:
        """Commit until nothing is pending."""
        self.scheduler.run()
        self.log.commit()
        self.scheduler.run()
        self.log.commit()
        self.leaders.settle()

    def init_producer_id(self) -> Producer:
        self.run()
        promise: Promise[InitProducerIdResult] = self.runtime.write(
            0, lambda machine: machine.init_producer_id(ID, InitParameters(60_000), 17)
        )
        self.run()
        return promise.result().producer

    def ask(
        self, sequence: int = 0, *, add: bool = True, abortable: bool = True
    ) -> Promise[Verification | None]:
        return self.verifier.verify(ID, self.producer, WHERE, sequence, add=add, abortable=abortable)

    def append(self, sequence: int, verification: Verification | None) -> int:
        return self.leaders.append("t", *self.producer, sequence, verification)

    def end(self) -> None:
        """Prepare the end; its markers are not sent yet."""
        ended = self.runtime.write(
            0, lambda machine: machine.end(ID, self.producer, committed=True, client_version=2)
        )
        self.run()
        self.producer = ended.result().producer
