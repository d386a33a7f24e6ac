"""Coordinators of groups and transactions on three brokers in one process, over logs and connections in memory.

Time passes in ticks. A tick runs the callbacks that are due, then followers copy what leaders have appended. Faults are
scheduled for a tick: `move` elects another leader while the old one lives, `fence` after its lease has ended, `kill`
after its process has ended. Brokers follow the metadata some ticks later, the new leader first.

Rules of the model, as in the cluster: a record is committed when the leader of the newest epoch has it and every former
leader in the ISR has followed. What a replaced leader appended can survive in its successor's log, or not.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.coordination.marker_sender import LocalMarkerSender, MarkerResults, PendingMarker
from ottla.broker.coordination.remote_markers import RemoteMarkers
from ottla.broker.coordination.txn_partitions import ClusterTxnPartitions, LocalTxnPartitions
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group import records as group_records
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.ports import Batches
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn import records as txn_records
from ottla.coordinator.txn.completion import TxnMarkerEntry
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import Producer
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.peer.errors import PeerError, Reason
from ottla.records.batch import NO_SEQUENCE, read_header, stamp
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records
from ottla.storage.producers.producer_state import ProducerState, Verification
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.schema import Message
from tests.support.coordination import FakeClock
from tests.support.fake_peers import image_of
from tests.support.shards import FakeLease, FakeScheduler

R = TypeVar("R")
NODES = (1, 2, 3)
GROUPS = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS = TopicPartition("__transaction_state", 0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TICK_MS = 10
_FOREVER_MS = 1 << 40


def producers_of(batches: list[bytes]) -> ProducerState:
    """The producers of a log with these batches."""
    state = ProducerState(_FOREVER_MS)
    for batch in batches:
        record(state, batch)
    return state


def record(state: ProducerState, batch: bytes) -> None:
    header = read_header(batch)
    if header.is_control:
        (only,) = iter_records(memoryview(batch), header)
        marker = read_end_txn(only.key, only.value)
        assert marker is not None
        state.append_marker(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            offset=header.base_offset,
            timestamp=0,
            aborted=not marker.committed,
        )
    elif header.is_transactional:
        state.append_batch(
            header.producer_id,
            header.producer_epoch,
            NO_SEQUENCE,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            timestamp=0,
            transactional=True,
        )


class Replicated:
    """A partition of an internal topic on all brokers."""

    def __init__(self, leader: int) -> None:
        self.leader, self.epoch = leader, 0
        self.committed: list[bytes] = []
        self.tails: dict[int, list[bytes]] = {node: [] for node in NODES}
        self.known: dict[int, tuple[int, int]] = dict.fromkeys(NODES, (leader, 0))
        self.isr_waits_for: set[int] = set()
        self._waiting: dict[int, list[tuple[int, Callable[[ErrorCode], None]]]] = defaultdict(list)

    def log(self, node: int) -> list[bytes]:
        return self.committed + self.tails[node]

    def wait(self, node: int, end: int, callback: Callable[[ErrorCode], None]) -> None:
        self._waiting[node].append((end, callback))

    def replicate(self) -> None:
        """Commit what the leader of the newest epoch has, if no broker in the ISR is behind."""
        if self.known[self.leader] != (self.leader, self.epoch) or self.isr_waits_for:
            return
        self.committed += self.tails[self.leader]
        self.tails[self.leader] = []
        waiting, self._waiting[self.leader] = self._waiting[self.leader], []
        for end, callback in waiting:
            assert end <= end_of(self.committed)
            callback(ErrorCode.NONE)

    def elect(self, node: int, *, kept: int, planned: bool) -> None:
        """Elect another leader, which has copied the first `kept` batches that the old one has not committed."""
        old = self.leader
        self.leader, self.epoch = node, self.epoch + 1
        self.tails[node] = list(self.tails[old][:kept])
        if planned:
            self.isr_waits_for.add(old)

    def follow(self, node: int) -> None:
        """The replica of a broker follows the newest leader epoch."""
        if self.known[node] == (self.leader, self.epoch):
            return
        self.known[node] = self.leader, self.epoch
        self.isr_waits_for.discard(node)
        if node != self.leader:
            self.tails[node] = []
        waiting, self._waiting[node] = self._waiting[node], []
        for _, callback in waiting:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def end_of(batches: list[bytes]) -> int:
    return read_header(batches[-1]).last_offset + 1 if batches else 0


class NodeLog:
    """`coordinator.runtime.ports.ShardLog` of one broker."""

    def __init__(self, node: int, partition: Replicated) -> None:
        self._node = node
        self._partition = partition

    def _led(self, leader_epoch: int) -> Replicated:
        leader, epoch = self._partition.known[self._node]
        if leader_epoch != epoch:
            behind = leader_epoch < epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if leader != self._node:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._partition

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
        led = self._led(leader_epoch)
        batches = led.log(self._node)
        stamp(batch, end_of(batches), leader_epoch)
        header = read_header(batch)
        state = producers_of(batches)
        if header.is_control:
            (only,) = iter_records(batch, header)
            marker = read_end_txn(only.key, only.value)
            assert marker is not None
            state.check_marker(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                epoch_per_transaction=transaction_version >= 2,
            )
        elif header.is_transactional:
            state.check(header.producer_id, header.producer_epoch, -1, -1, transactional=True)
        led.tails[self._node].append(bytes(batch))
        return header.last_offset + 1

    def append_offset(self, partition: int, leader_epoch: int) -> int:
        return self.end_offset(partition, leader_epoch)

    def end_offset(self, partition: int, leader_epoch: int) -> int:
        return end_of(self._led(leader_epoch).log(self._node))

    def committed_offset(self, partition: int, leader_epoch: int) -> int:
        return end_of(self._led(leader_epoch).committed)

    def when_committed(
        self, partition: int, leader_epoch: int, end_offset: int, callback: Callable[[ErrorCode], None]
    ) -> None:
        self._led(leader_epoch).wait(self._node, end_offset, callback)

    def batches(self, partition: int, leader_epoch: int) -> Batches:
        for batch in list(self._led(leader_epoch).committed):
            self._led(leader_epoch)
            yield read_header(batch), memoryview(batch)

    def batch_bytes_max(self, partition: int) -> int:
        return 100_000


class DataPartition:
    """A partition that transactions write to; all its replicas are in sync."""

    def __init__(self) -> None:
        self.producers = ProducerState(_FOREVER_MS)
        self.markers: list[tuple[Producer, bool]] = []
        self._end = 0

    def verify(self, producer: Producer) -> Verification | None:
        return self.producers.start_verification(producer.id, producer.epoch, 0, 0)

    def append(self, producer: Producer, verification: Verification | None) -> None:
        begun = self.producers.in_transaction(producer.id, producer.epoch)
        sequence = 1 if begun else 0
        if self.producers.check(
            producer.id,
            producer.epoch,
            sequence,
            sequence,
            transactional=True,
            epoch_per_transaction=True,
            verification=verification,
        ):
            return
        self.producers.append_batch(
            producer.id,
            producer.epoch,
            sequence,
            base_offset=self._end,
            last_offset=self._end,
            timestamp=0,
            transactional=True,
        )
        self._end += 1

    def end(self, marker: TxnMarkerEntry) -> None:
        self.producers.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            epoch_per_transaction=marker.transaction_version >= 2,
        )
        ended = self.producers.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            offset=self._end,
            timestamp=0,
            aborted=not marker.committed,
        )
        self._end += 1
        if ended is not None:
            self.markers.append((Producer(marker.producer_id, marker.producer_epoch), marker.committed))


class Broker:
    """The coordinators of one broker."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self.node = node
        self.cluster = cluster
        self.lease = FakeLease()
        self.image: MetadataImage = EMPTY_IMAGE
        config = BrokerConfig(
            {"group.initial.rebalance.delay.ms": "0", "transaction.two.phase.commit.enable": "true"}
        )
        clock, rng = cluster.clock, random.Random(node)
        self.groups: Runtime[GroupStateMachine] = self._runtime(
            GROUPS,
            vars(group_records),
            lambda _, __, timers: GroupStateMachine(GroupSettings(config), timers, clock, rng),
        )
        self.local_markers = cast(LocalMarkerSender, LocalMarkers(self))
        markers = self.markers = RemoteMarkers(node, self.local_markers, self, cluster.scheduler)
        self.transactions: Runtime[TxnStateMachine] = self._runtime(
            TRANSACTIONS,
            vars(txn_records),
            lambda _, epoch, timers: TxnStateMachine(TxnSettings(config), timers, clock, markers, epoch),
        )
        self.local_partitions = LocalTxnPartitions(self.transactions, lambda _: 0)
        self.txn_partitions = ClusterTxnPartitions(
            node, self.local_partitions, lambda _: 0, self, cluster.scheduler
        )

    def _runtime(self, where: TopicPartition, messages: dict[str, Any], make: Any) -> Any:
        return Runtime(
            where.topic,
            log=NodeLog(self.node, self.cluster.internal[where]),
            make=make,
            table=RecordTable(messages.values()),
            clock=self.cluster.clock,
            scheduler=self.cluster.scheduler,
            lease=self.lease,
            write_timeout_ms=5_000,
            report=self.cluster.report,
        )

    def follow(self) -> None:
        """Apply the newest metadata: replicas first, then coordinators."""
        if self.cluster.brokers[self.node] is not self:
            return
        for partition in self.cluster.internal.values():
            partition.follow(self.node)
        delta, self.image = MetadataDelta(self.image), self.cluster.image()
        self.markers.on_metadata_changed(self.image)
        self.txn_partitions.on_metadata_changed(self.image)
        runtimes: tuple[tuple[TopicPartition, Runtime[Any]], ...] = (
            (GROUPS, self.groups),
            (TRANSACTIONS, self.transactions),
        )
        for where, runtime in runtimes:
            runtime.on_metadata_changed(delta, self.image)
            leader, epoch = self.cluster.leaders[where]
            if leader == self.node:
                runtime.elect(where.partition, epoch)
            else:
                runtime.resign(where.partition)
        self.lease.held = True

    # Connections to other brokers

    def request(
        self,
        node_id: int,
        message: Message,
        response: type[Any],
        *,
        timeout_s: float,
        versions: range | None = None,
    ) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.cluster.scheduler.call_soon(partial(self.cluster.deliver, self, node_id, message, promise))
        return promise

    def write_markers(self, request: WriteTxnMarkersRequest, promise: Promise[Any]) -> None:
        left = len(request.markers)
        results: list[WritableTxnMarkerResult] = []

        def done(producer_id: int, errors: MarkerResults) -> None:
            topics = [
                WritableTxnMarkerTopicResult(
                    name=where.topic,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=where.partition, error_code=error)
                    ],
                )
                for where, error in errors.items()
            ]
            results.append(WritableTxnMarkerResult(producer_id=producer_id, topics=topics))
            if len(results) == left:
                self.cluster.reply(self, promise, WriteTxnMarkersResponse(markers=results))

        for each in request.markers:
            partitions = [
                TopicPartition(topic.name, index)
                for topic in each.topics
                for index in topic.partition_indexes
            ]
            marker = TxnMarkerEntry(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                partitions,
                each.transaction_version,
            )
            self.local_markers.send(marker, partial(done, each.producer_id))

    def add_partitions(self, request: AddPartitionsToTxnRequest, promise: Promise[Any]) -> None:
        (only,) = request.transactions
        ((topic, indexes),) = [(topic.name, topic.partitions) for topic in only.topics]
        checked = self.local_partitions.check(
            only.transactional_id,
            Producer(only.producer_id, only.producer_epoch),
            TopicPartition(topic, indexes[0]),
            add=not only.verify_only,
        )

        def done(code: ErrorCode | None, error: BaseException | None) -> None:
            if isinstance(error, ApiError):
                code = error.code
            assert code is not None
            results = [
                AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                for each in indexes
            ]
            listed = AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
            response = AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResult(transactional_id=only.transactional_id, topic_results=[listed])
                ]
            )
            self.cluster.reply(self, promise, response)

        checked.when_done(done)


class LocalMarkers:
    """Writes markers to the partitions that a broker leads."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def send(self, marker: TxnMarkerEntry, on_done: Callable[[MarkerResults], None]) -> None:
        pending = PendingMarker(len(marker.partitions), on_done)
        cluster = self._broker.cluster
        for where in marker.partitions:
            if where == GROUPS:
                promise = self._broker.groups.complete_transaction(
                    where.partition,
                    *marker[:3],
                    committed=marker.committed,
                    transaction_version=marker.transaction_version,
                )
                promise.when_done(partial(_group_ended, pending))
            elif cluster.leaders[where][0] != self._broker.node:
                pending.done(where, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                try:
                    cluster.data[where].end(marker)
                except ApiError as error:
                    pending.done(where, error.code)
                else:
                    pending.done(where, ErrorCode.NONE)


def _group_ended(pending: PendingMarker, _: None, error: BaseException | None) -> None:
    assert error is None or isinstance(error, ApiError)
    code = ErrorCode.NONE if error is None else error.code
    retried = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pending.done(GROUPS, ErrorCode.NOT_LEADER_OR_FOLLOWER if retried else code)


class Cluster:
    """Three brokers. Partition 0 of each internal topic is led by broker 1, those of `t` by 2 and 3."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.internal = {GROUPS: Replicated(1), TRANSACTIONS: Replicated(1)}
        self.data = {T0: DataPartition(), T1: DataPartition()}
        self.data_leaders = {T0: (2, 0), T1: (3, 0)}
        self.brokers: dict[int, Broker | None] = {}
        self.tick_count = 0
        self.reported: list[BaseException] = []
        self._agenda: dict[int, list[Callable[[], None]]] = defaultdict(list)
        for node in NODES:
            self.start(node)
        self.run(5)

    @property
    def leaders(self) -> dict[TopicPartition, tuple[int, int]]:
        internal = {where: (each.leader, each.epoch) for where, each in self.internal.items()}
        return internal | self.data_leaders

    def image(self) -> MetadataImage:
        return image_of(self.leaders)

    def report(self, error: BaseException) -> None:
        self.reported.append(error)

    # Time

    def at(self, tick: int, action: Callable[[], None]) -> None:
        self._agenda[tick].append(action)

    def tick(self) -> None:
        self.tick_count += 1
        for action in self._agenda.pop(self.tick_count, []):
            action()
        self.scheduler.turn()
        if self.tick_count % 2 == 0:
            for partition in self.internal.values():
                partition.replicate()
        self.clock.now += TICK_MS

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()

    # Faults

    def start(self, node: int) -> None:
        broker = self.brokers[node] = Broker(self, node)
        broker.follow()

    def _elect(self, old: int, *, kept: int, planned: bool) -> None:
        for partition in self.internal.values():
            if not planned:
                partition.isr_waits_for.discard(old)
            if partition.leader == old:
                partition.elect(old % len(NODES) + 1, kept=kept, planned=planned)
        for where, (leader, epoch) in self.data_leaders.items():
            if leader == old:
                self.data_leaders[where] = (old % len(NODES) + 1, epoch + 1)

    def _followed_by(self, first: int, last: int | None, delay: int) -> None:
        for after, node in enumerate([first, *(each for each in NODES if each not in (first, last))]):
            self.at(self.tick_count + 1 + 3 * after, partial(self._follow, node))
        if last is not None:
            self.at(self.tick_count + delay, partial(self._follow, last))

    def _follow(self, node: int) -> None:
        broker = self.brokers[node]
        if broker is not None:
            broker.follow()

    def move(self, node: int, *, kept: int = 0, delay: int = 10) -> None:
        """Move all leaderships of a broker that lives and is in sync."""
        self._elect(node, kept=kept, planned=True)
        self._followed_by(node % len(NODES) + 1, node, delay)

    def fence(self, node: int, *, kept: int = 0, delay: int = 30) -> None:
        """Fence a broker that is cut off from the controller; it follows the metadata after the delay."""
        broker = self.brokers[node]
        assert broker is not None
        broker.lease.held = False
        self._elect(node, kept=kept, planned=False)
        self._followed_by(node % len(NODES) + 1, node, delay)

    def kill(self, node: int, *, kept: int = 0, delay: int = 30) -> None:
        """End the process of a broker; a new one starts after the delay."""
        self.brokers[node] = None
        self._elect(node, kept=kept, planned=False)
        self._followed_by(node % len(NODES) + 1, None, delay)
        self.at(self.tick_count + delay, partial(self.start, node))

    # Connections

    def deliver(self, sender: Broker, node_id: int, message: Message, promise: Promise[Any]) -> None:
        target = self.brokers[node_id]
        if self.brokers[sender.node] is not sender:
            return
        if target is None:
            promise.fail(PeerError(Reason.REFUSED, "nothing listens"))
        elif isinstance(message, WriteTxnMarkersRequest):
            target.write_markers(message, promise)
        else:
            assert isinstance(message, AddPartitionsToTxnRequest)
            target.add_partitions(message, promise)

    def reply(self, responder: Broker, promise: Promise[Any], response: Message) -> None:
        """Return a response, unless the process that sends it has ended."""

        def send() -> None:
            if self.brokers[responder.node] is responder:
                promise.keep(response)
            else:
                promise.fail(PeerError(Reason.CLOSED, "the connection was closed"))

        self.scheduler.call_soon(send)
