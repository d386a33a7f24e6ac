"""A harness for the transaction coordinator: tests acknowledge markers and may delay commits."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.state_machine import NO_PRODUCER
from ottla.coordinator.txn.completion import MarkerResults, TxnMarkerEntry
from ottla.coordinator.txn.init_producer_id import InitParameters
from ottla.coordinator.txn.records import TransactionLogValue
from ottla.coordinator.txn.responses import EndTxnResult, InitProducerIdResult
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import NeedsProducerId, Producer, Transaction
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from tests.support.coordination import FakeClock, FakeTimers, Harness

R = TypeVar("R")
TIMEOUT_MS = 60_000
T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


class Sent(NamedTuple):
    """A marker that was sent and not acknowledged."""

    marker: TxnMarkerEntry
    callback: Callable[[MarkerResults], None]


class HeldMarkers:
    """A sender that keeps markers until the test acknowledges them."""

    def __init__(self) -> None:
        self.on_the_way: list[Sent] = []
        self.written: list[tuple[TopicPartition, TxnMarkerEntry]] = []

    def send(self, marker: TxnMarkerEntry, callback: Callable[[MarkerResults], None]) -> None:
        self.on_the_way.append(Sent(marker, callback))

    def acknowledge(self, error: ErrorCode = ErrorCode.NONE, *only: TopicPartition) -> None:
        """Complete all sent markers with a result; `only` limits the result to these partitions."""
        arrived, self.on_the_way = self.on_the_way, []
        for marker, callback in arrived:
            results = {each: error for each in marker.partitions if not only or each in only}
            self.written += [(each, marker) for each, code in results.items() if code is ErrorCode.NONE]
            callback(results)


class _Bench(Harness[TxnStateMachine]):
    """A harness whose commits can be delayed."""

    holding = False

    def apply(
        self, decision: Decision[R], *, producer_id: int = NO_PRODUCER, producer_epoch: int = -1
    ) -> Promise[R]:
        if self.holding and decision.on_complete is not None:
            self.held.append(decision.on_complete)
            decision = Decision(decision.response, decision.records)
        return super().apply(decision, producer_id=producer_id, producer_epoch=producer_epoch)

    def __init__(self, *args: Any) -> None:
        self.held: list[Callable[[ErrorCode], None]] = []
        super().__init__(*args)


def image_with(version: int, topics: dict[str, int]) -> MetadataImage:
    """Metadata with these topics, under this transaction.version."""
    partition = PartitionImage(replicas=(1,), directories=(), isr=(1,), leader=1)
    images = {
        name: TopicImage(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), dict.fromkeys(range(count), partition))
        for name, count in topics.items()
    }
    by_id = {each.topic_id: each for each in images.values()}
    return MetadataImage(features={"transaction.version": version}, topics=TopicsImage(images, by_id))


class TxnBench:
    """One shard of the transaction coordinator, with ids for producers and a log."""

    def __init__(self, *, version: int = 2, topics: dict[str, int] | None = None, **config: str) -> None:
        self.markers = HeldMarkers()
        self.coordinator_epoch = 7
        self._next_id = 1000
        names = {name.replace("_", "."): value for name, value in config.items()}
        settings = TxnSettings(BrokerConfig(names))

        def make(timers: FakeTimers, clock: FakeClock) -> TxnStateMachine:
            return TxnStateMachine(settings, timers, clock, self.markers, self.coordinator_epoch)

        self.bench = _Bench(make, image_with(version, topics or {"t": 3, "__consumer_offsets": 2}))

    @property
    def machine(self) -> TxnStateMachine:
        return self.bench.machine

    # Requests

    def init(
        self,
        name: str = "id",
        *,
        timeout_ms: int = TIMEOUT_MS,
        expected: Producer | None = None,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> InitProducerIdResult:
        parameters = InitParameters(timeout_ms, expected, two_phase, keep_prepared)
        return self._with_id(lambda machine, fresh: machine.init_producer_id(name, parameters, fresh))

    def started(self, name: str = "id", **options: Any) -> Producer:
        """A new producer of the id."""
        response = self.init(name, **options)
        assert response.error is ErrorCode.NONE
        return response.producer

    def add(
        self, producer: Producer, *partitions: TopicPartition, name: str = "id", version: int = 0
    ) -> ErrorCode:
        wanted = frozenset(partitions)
        return self.bench.write(
            lambda machine: machine.add_partitions(name, producer, wanted, client_version=version)
        ).result()

    def opened(self, *partitions: TopicPartition, name: str = "id", **options: Any) -> Producer:
        """A producer with an open transaction over these partitions."""
        producer = self.started(name, **options)
        assert self.add(producer, *partitions, name=name) is ErrorCode.NONE
        return producer

    def end(self, producer: Producer, *, committed: bool, name: str = "id", version: int = 2) -> EndTxnResult:
        return self._with_id(
            lambda machine, fresh: machine.end(
                name, producer, committed=committed, client_version=version, fresh_id=fresh
            )
        )

    def commit(self, producer: Producer, **options: Any) -> EndTxnResult:
        return self.end(producer, committed=True, **options)

    def abort(self, producer: Producer, **options: Any) -> EndTxnResult:
        return self.end(producer, committed=False, **options)

    def _with_id(self, operation: Callable[[TxnStateMachine, int | None], Decision[R]]) -> R:
        """Allocate a producer id only if the operation needs one, as the handlers do."""
        try:
            return self.bench.write(lambda machine: operation(machine, None)).result()
        except NeedsProducerId:
            self._next_id += 1
            return self.bench.write(lambda machine: operation(machine, self._next_id)).result()

    # Events

    def complete(self) -> None:
        """Acknowledge all markers and append the completions."""
        while self.markers.on_the_way:
            self.markers.acknowledge()
            self.bench.advance(0)
        self.bench.advance(0)

    def hold_commits(self) -> None:
        self.bench.holding = True

    def release_commits(self) -> None:
        self.bench.holding = False
        held, self.bench.held = self.bench.held, []
        for on_complete in held:
            on_complete(ErrorCode.NONE)

    def restart(self) -> None:
        """Another coordinator takes over with the log; sent markers are lost."""
        self.markers.on_the_way.clear()
        self.bench.held.clear()
        self.coordinator_epoch += 1
        self.bench.restart()

    def delete_topic(self, name: str) -> None:
        by_name = {key: topic for key, topic in self.bench.image.topics.by_name.items() if key != name}
        topics = TopicsImage(by_name, {topic.topic_id: topic for topic in by_name.values()})
        self._change(topics=topics)

    def set_version(self, version: int) -> None:
        """Another level of transaction.version is finalised."""
        self._change(features={"transaction.version": version})

    def _change(self, **changes: Any) -> None:
        before = self.bench.image
        self.bench.image = msgspec.structs.replace(before, **changes)
        self.machine.on_metadata_changed(MetadataDelta(before), self.bench.image)

    def put(self, name: str = "id", **changes: Any) -> None:
        """Append a changed state to the log and load it."""
        self.bench.log.append(self._record(name, changes))
        self.restart()

    def _record(self, name: str, changes: dict[str, Any]) -> Any:
        record, stamp = next(
            entry
            for entry in reversed(self.bench.log)
            if isinstance(entry, tuple) and getattr(entry[0].key, "transactional_id", None) == name
        )
        value = record.value
        assert isinstance(value, TransactionLogValue)
        changed = TransactionLogValue(
            **{**{field: getattr(value, field) for field in value.__struct_fields__}, **changes}
        )
        return record._replace(value=changed), stamp

    # State

    def transaction(self, name: str = "id") -> Transaction:
        return self.machine.table[name]

    def state(self, name: str = "id") -> str:
        return self.transaction(name).state.label

    def last_value(self) -> TransactionLogValue:
        value = self.bench.values()[-1].value
        assert isinstance(value, TransactionLogValue)
        return value
