"""The group and transaction coordinators of this broker, as handlers use them.

`Coordinator` maps a group id or transactional id to its partition and passes the request to the shard of that
partition. `Coordinators` contains both kinds and follows the metadata: a shard is loaded when this broker becomes the
leader of its partition, and unloaded when it no longer is.

An id is mapped to a partition by Kafka's hash, so the number of partitions must never change. While the topic does not
exist, no broker coordinates (NOT_COORDINATOR); FindCoordinator creates it (`handlers.k10_find_coordinator`).

Loading starts when the event loop is idle, in small steps; the start of the node does not wait for it. Concurrency:
the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final, Generic, Protocol, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.base.rng import Random
from ottla.base.settled import settled
from ottla.broker.coordination.coordinator_log import CoordinatorLog, LoopScheduler
from ottla.broker.coordination.marker_sender import LocalMarkerSender
from ottla.broker.coordination.remote_markers import RemoteMarkers
from ottla.broker.coordination.txn_partitions import ClusterTxnPartitions, LocalTxnPartitions
from ottla.broker.coordination.verification import TxnVerifier
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.group import records as group_records
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.ports import LeadershipLease
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.runtime.shard import APPEND_ERRORS
from ottla.coordinator.runtime.state_machine import StateMachine
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.txn import records as txn_records
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import Producer
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.peer.peers import PeerRequests
from ottla.records.batch import NO_SEQUENCE
from ottla.replication.replicas import Replicas

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")

_INT_MIN: Final = -(1 << 31)
_HASHED_UNITS: Final = 256
_POWERS: Final = tuple(pow(31, power, 1 << 32) for power in range(_HASHED_UNITS, -1, -1))
_CACHED_KEY_CHARACTERS_MAX: Final = 256
_KNOWS_ABORTABLE: Final = 4
_ADDS_PARTITION: Final = 5
_VERIFICATION_ERRORS: Final = {
    **APPEND_ERRORS,
    # Old clients do not retry NETWORK_EXCEPTION; this error is retried without a look-up of the coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def java_hash(text: str) -> int:
    """Return Java's hash of a string: over its UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for start in range(0, len(units), 2 * _HASHED_UNITS):
        part = unpack(
            f"<{min(len(units) - start, 2 * _HASHED_UNITS) // 2}H", units[start : start + 2 * _HASHED_UNITS]
        )
        powers = _POWERS[-len(part) - 1 :]
        value = (value * powers[0] + sum(map(mul, part, powers[1:]))) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value


def partition_of(key: str, count: int) -> int:
    """Return the partition of an internal topic to which a group or transactional id is mapped."""
    # Ids are chosen by clients and have up to 32,767 bytes: the cache must not retain long ones.
    return _cached_partition(key, count) if len(key) <= _CACHED_KEY_CHARACTERS_MAX else _partition(key, count)


def _partition(key: str, count: int) -> int:
    value = java_hash(key)
    return 0 if value == _INT_MIN else abs(value) % count


_cached_partition = lru_cache(16_384)(_partition)


class Coordinator(Generic[M]):
    """One kind of coordinator on this broker."""

    def __init__(self, runtime: Runtime[M], node_id: int, partitions_default: int) -> None:
        self.topic = runtime.topic
        self.runtime = runtime
        self._node_id = node_id
        self._partitions_default = partitions_default

    def partition_for(self, key: str) -> int:
        """Return the partition to which the group or transactional id is mapped."""
        topic = self.runtime.image.topics.by_name.get(self.topic)
        return partition_of(key, self._partitions_default if topic is None else len(topic.partitions))

    def submit(self, key: str, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        """Let the responsible state machine decide; the promise can fail with ApiError."""
        return self.runtime.write(self.partition_for(key), operation)

    async def write(self, key: str, operation: Callable[[M], Decision[R]]) -> R:
        """Let the responsible state machine decide and wait for the result; raises ApiError."""
        return await settled(self.submit(key, operation))

    async def read(self, key: str, operation: Callable[[M], R]) -> R:
        """Read from the responsible state machine; raises ApiError."""
        return await settled(self.runtime.read(self.partition_for(key), operation))

    async def read_all(self, operation: Callable[[M], R]) -> list[R]:
        """Read from all state machines of this broker; raises ApiError if one of them is loading."""
        found = []
        for promise in self.runtime.read_all(operation):
            try:
                found.append(await settled(promise))
            except ApiError as error:
                if error.code is not ErrorCode.NOT_COORDINATOR:
                    raise
        return found

    # Following the metadata

    def load(self, image: MetadataImage) -> None:
        """Apply a whole image, at the start."""
        self.runtime.image = image
        topic = image.topics.by_name.get(self.topic)
        for index, each in () if topic is None else topic.partitions.items():
            if each.leader == self._node_id:
                self.runtime.elect(index, each.leader_epoch)

    def announce(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """End the leaderships that a change of the metadata takes away, and expect those that it gives."""
        deleted = delta.base.topics.by_name.get(self.topic)
        if deleted is not None and deleted.topic_id in delta.deleted_topic_ids:
            for index in deleted.partitions:
                self.runtime.resign(index)
        for index, leader, leader_epoch in self._changed_leaders(delta, image):
            if leader == self._node_id:
                self.runtime.announce(index, leader_epoch)
            else:
                self.runtime.resign(index)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a change of the metadata that was announced; the replicas have applied it."""
        self.runtime.on_metadata_changed(delta, image)
        self._start(delta, image)

    def _start(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Load the partitions of which this broker is the leader now: their logs are ready."""
        for index, leader, leader_epoch in self._changed_leaders(delta, image):
            if leader == self._node_id:
                self.runtime.start(index, leader_epoch)

    def _changed_leaders(self, delta: MetadataDelta, image: MetadataImage) -> list[tuple[int, int, int]]:
        """The changed partitions of the topic, with leader and leader epoch."""
        topic = image.topics.by_name.get(self.topic)
        if topic is None or topic.topic_id not in delta.changed_topics:
            return []
        changed = sorted(delta.changed_partitions(topic.topic_id))
        return [
            (index, topic.partitions[index].leader, topic.partitions[index].leader_epoch) for index in changed
        ]


class GroupCoordinator(Coordinator[GroupStateMachine]):
    """The coordinator of groups and their offsets."""

    verifier: TxnVerifier

    async def write_transactional(
        self,
        group_id: str,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[GroupStateMachine], Decision[R]],
        *,
        api_version: int,
    ) -> R:
        """Let the state machine decide about offsets of a transaction that includes the group; raises ApiError."""
        index = self.partition_for(group_id)
        verified = self.verifier.verify(
            transactional_id,
            Producer(producer_id, producer_epoch),
            TopicPartition(self.topic, index),
            NO_SEQUENCE,
            add=api_version >= _ADDS_PARTITION,
            abortable=api_version >= _KNOWS_ABORTABLE,
        )
        try:
            verification = await settled(verified)
        except ApiError as error:
            raise ApiError(_VERIFICATION_ERRORS.get(error.code, error.code), error.message) from error
        return await settled(
            self.runtime.write_transactional(index, producer_id, producer_epoch, operation, verification)
        )


class TxnCoordinator(Coordinator[TxnStateMachine]):
    """The coordinator of transactions.

    Its state machines use the newest image at once, as the handlers do: a partition that was added to a transaction by
    that image must not be taken for a deleted one, which gets no marker, while the replicas still create their logs.
    """

    def announce(self, delta: MetadataDelta, image: MetadataImage) -> None:
        super().announce(delta, image)
        self.runtime.on_metadata_changed(delta, image)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._start(delta, image)


class Connections(Protocol):
    """Connections to other brokers; see `coordination_peers.CoordinationPeers`."""

    @property
    def markers(self) -> PeerRequests: ...

    @property
    def verifications(self) -> PeerRequests: ...

    def load(self, image: MetadataImage) -> None: ...

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None: ...

    def close(self) -> None: ...


class Coordinators:
    """The coordinators of one broker, and the verifier and marker sender that transactions need."""

    def __init__(
        self,
        node_id: int,
        replicas: Replicas,
        settings: DynamicConfig,
        *,
        clock: Clock,
        rng: Random,
        loop: asyncio.AbstractEventLoop,
        lease: LeadershipLease,
        peers: Connections,
    ) -> None:
        self._loop = loop
        self._lease = lease
        self._peers = peers
        self._clock = clock
        self._replicas = replicas
        self._scheduler = LoopScheduler(loop, clock)
        self._write_timeout_ms = settings.int("offsets.commit.timeout.ms")
        group_settings, txn_settings = GroupSettings(settings), TxnSettings(settings)
        groups: Runtime[GroupStateMachine] = self._runtime(
            GROUP_TOPIC,
            RecordTable(vars(group_records).values()),
            lambda _, __, timers: GroupStateMachine(group_settings, timers, clock, rng),
        )
        self.markers = LocalMarkerSender(replicas, groups, clock)
        self._remote_markers = RemoteMarkers(node_id, self.markers, peers.markers, self._scheduler)
        transactions: Runtime[TxnStateMachine] = self._runtime(
            TRANSACTION_TOPIC,
            RecordTable(vars(txn_records).values()),
            lambda _, leader_epoch, timers: TxnStateMachine(
                txn_settings, timers, clock, self._remote_markers, leader_epoch
            ),
        )
        self.groups = GroupCoordinator(groups, node_id, settings.int("offsets.topic.num.partitions"))
        self.transactions = TxnCoordinator(
            transactions, node_id, settings.int("transaction.state.log.num.partitions")
        )
        partition_for = self.transactions.partition_for
        self._txn_partitions = ClusterTxnPartitions(
            node_id,
            LocalTxnPartitions(transactions, partition_for),
            partition_for,
            peers.verifications,
            self._scheduler,
        )
        self.verifier = TxnVerifier(self._txn_partitions, replicas, settings, clock, self._scheduler)
        self.groups.verifier = self.verifier

    def _runtime(self, topic: str, table: RecordTable, make: Callable[[int, int, Timers], M]) -> Runtime[M]:
        return Runtime(
            topic,
            log=CoordinatorLog(topic, self._replicas, self._scheduler),
            make=make,
            table=table,
            clock=self._clock,
            scheduler=self._scheduler,
            lease=self._lease,
            write_timeout_ms=self._write_timeout_ms,
            report=self._report,
        )

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": "a coordinator failed", "exception": error})

    def load(self, image: MetadataImage) -> None:
        """Lead the partitions of the image, at the start."""
        self._peers.load(image)
        self._use(image)
        for each in (self.groups, self.transactions):
            each.load(image)

    def announce(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A change of the metadata has arrived; the replicas will apply it."""
        self._peers.changed(delta, image)
        self._use(image)
        for each in (self.groups, self.transactions):
            each.announce(delta, image)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a change of the metadata that was announced; the replicas have applied it."""
        for each in (self.groups, self.transactions):
            each.changed(delta, image)

    def _use(self, image: MetadataImage) -> None:
        self._remote_markers.on_metadata_changed(image)
        self._txn_partitions.on_metadata_changed(image)

    def close(self) -> None:
        """Fail all pending requests; nothing is coordinated by this broker from now on."""
        for each in (self.transactions, self.groups):
            each.runtime.close()
        self._peers.close()
