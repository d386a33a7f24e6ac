"""A broker that follows partitions of fake leaders: real logs on a simulated disk, requests answered by the test."""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.base.errors import StorageFault
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.replica.fetchers import ReplicaFetchers
from ottla.broker.replica.followed import FollowedPartition
from ottla.broker.replica.ports import FetcherEnvironment
from ottla.broker.replica.settings import ReplicaFetchSettings
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.peer.errors import PeerError, Reason
from ottla.peer.exchange import RawResponse
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.replication.replicas import Replicas
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor
from ottla.wire import codec
from ottla.wire.frames import EncodedRequest
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.schema import Message
from tests.unit.peer.fakes import FakeHandle

NODE, LEADER, OTHER = 1, 2, 3
TOPIC_ID = uuid.UUID(int=77)
NOW_MS = 1_700_000_000_000
SESSION = 99
Position = tuple[int, int, int, int]
"""partition, leader epoch, fetch offset, last fetched epoch"""


class FakeLoop:
    """Callbacks run when the test moves the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: deque[Callable[[], None]] = deque()
        self._timers: list[FakeHandle] = []

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> FakeHandle:
        handle = FakeHandle(self.now + delay, callback)
        self._timers.append(handle)
        return handle

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            while self.soon:
                self.soon.popleft()()
            due = [timer for timer in self._timers if not timer.cancelled and timer.at <= end]
            if not due:
                break
            first = min(due, key=lambda timer: timer.at)
            self._timers.remove(first)
            self.now = first.at
            first.callback()
        self.now = end


class LoopClock:
    """The time of the event loop; the time of day does not change."""

    def __init__(self, loop: FakeLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return self._loop.now


class FakePeers:
    """Requests wait until the test answers them."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Any, Promise[Any]]] = deque()
        self.timeouts: list[float] = []

    def request(
        self,
        node_id: int,
        message: Message,
        response: type[Any],
        *,
        timeout_s: float,
        versions: object = None,
    ) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.waiting.append((node_id, message, promise))
        self.timeouts.append(timeout_s)
        return promise

    def request_raw(
        self, node_id: int, message: Message | EncodedRequest, *, timeout_s: float, versions: object = None
    ) -> Promise[RawResponse]:
        encoded = message.body if isinstance(message, EncodedRequest) else codec.encode(message, 17)
        decoded = codec.decode(FetchRequest, encoded, 17)
        return self.request(node_id, decoded, Message, timeout_s=timeout_s)


def raw(base_offset: int, epoch: int, count: int = 1, value: bytes = b"v") -> bytes:
    """A batch as the leader sends it."""
    records = [NewRecord(None, value, timestamp=NOW_MS)] * count
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def data(
    index: int,
    records: bytes = b"",
    *,
    error: int = 0,
    high_watermark: int = 0,
    log_start: int = 0,
    diverging: tuple[int, int] | None = None,
) -> PartitionData:
    made = PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        records=records,
    )
    if diverging is not None:
        made.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return made


class FollowingBroker:
    """Broker 1, which follows partitions of a topic."""

    def __init__(self, config: LogConfig | None = None, **settings: Any) -> None:
        self.disk = SimDisk(random.Random(1))
        self.executor = InlineExecutor(stepped=True)
        self.loop = FakeLoop()
        self.peers = FakePeers()
        self.faults: list[StorageFault] = []
        self.dirs = LogDirs(self.disk, ["/d"], random.Random(2), self.executor)
        self.dirs.claim("c" * 22, NODE)
        clock = LoopClock(self.loop)
        self.quota = ReplicationQuota(11, 1000, clock)
        self.group_commit = GroupCommit(
            self.executor,
            clock,
            defer=self.loop.call_soon,
            on_progress=lambda log: self.replicas.progressed(log),  # noqa: PLW0108 - the two refer to each other
            on_fault=self.fail,
        )
        self.replicas = Replicas(
            NODE,
            self.dirs,
            clock,
            self.group_commit.schedule,
            lambda image, topic: config or LogConfig(),
            self._error,
        )
        self.broker_epoch = 5
        self.replaced: list[Partition] = []
        self.fetchers = ReplicaFetchers(
            self.replicas,
            FetcherEnvironment(
                NODE,
                self.peers,
                self.dirs,
                self.group_commit.schedule,
                clock,
                self.loop,
                ReplicaFetchSettings(**settings),
                lambda: self.broker_epoch,
                self.quota,
                self.replaced.append,
            ),
        )
        self.image: MetadataImage = EMPTY_IMAGE

    def fail(self, fault: StorageFault) -> None:
        self.faults.append(fault)
        self.dirs.fail(fault)

    def _error(self, partition: TopicPartition, error: Exception) -> None:
        raise error

    # Metadata

    def replay(self, *records: Any) -> None:
        """Apply metadata records; the executor runs until the logs exist."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        image = self.image = delta.apply(self.image.offset + len(records), 1)
        applied = self.replicas.apply(delta, image)
        applied.when_done(lambda _, __: self.fetchers.apply(delta, image))

    def create(self, count: int = 1, *, leader: int = LEADER, epoch: int = 0) -> None:
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[LEADER, OTHER, NODE],
                isr=[LEADER, OTHER, NODE],
                leader=leader,
                leader_epoch=epoch,
            )
            for index in range(count)
        ]
        self.replay(TopicRecord(name="t", topic_id=TOPIC_ID), *partitions)
        self.settle()

    def lead(self, leader: int, index: int = 0) -> None:
        """Another leader, in the next leader epoch."""
        self.replay(PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=leader))

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.get("t", index)

    def log(self, index: int = 0) -> Log:
        return self.partition(index).log

    def followed(self, index: int = 0) -> FollowedPartition:
        return next(one for one in self.fetchers if one.partition.index == index)

    # Time

    def turn(self) -> None:
        """Run what is due now, without the disk."""
        self.loop.advance(0.0)

    def settle(self) -> None:
        """Run what is due now and all work of the disk."""
        while True:
            self.loop.advance(0.0)
            if not self.executor.waiting:
                return
            self.executor.run_all()

    # Requests

    def next_request(self, leader: int = LEADER) -> FetchRequest:
        """The oldest request without a response."""
        node_id, message, _ = self.peers.waiting[0]
        assert node_id == leader
        assert isinstance(message, FetchRequest)
        return message

    def positions(self, leader: int = LEADER) -> list[Position]:
        """The positions in the oldest request without a response."""
        return [
            (one.partition, one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch)
            for topic in self.next_request(leader).topics
            for one in topic.partitions
        ]

    def respond(self, *partitions: PartitionData, error: int = 0, session: int = SESSION) -> None:
        """Respond to the oldest request; what follows runs with `turn` or `settle`."""
        topics = (
            [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))] if partitions else []
        )
        self.complete(FetchResponse(error_code=error, session_id=session, responses=topics))

    def complete(self, response: Message) -> None:
        _, request, promise = self.peers.waiting.popleft()
        if isinstance(request, FetchRequest):
            promise.keep(RawResponse(17, memoryview(codec.encode(response, 17)), 0))
        else:
            promise.keep(response)

    def disconnect(self) -> None:
        """Fail all requests."""
        waiting = list(self.peers.waiting)
        self.peers.waiting.clear()
        for _, _, promise in waiting:
            promise.fail(PeerError(Reason.CLOSED, "closed"))
