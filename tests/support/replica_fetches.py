"""One broker with partitions on a simulated disk, fetched from by followers and consumers without a network."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.broker.authorization import Authorization
from ottla.broker.fetch.fetch_request import FetchServices, PendingFetch
from ottla.broker.fetch.replica_fetch import PendingReplicaFetch
from ottla.broker.fetch.replica_sessions import ReplicaSessions
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.net.read_buffers import ReadBuffers
from ottla.metadata.image import EMPTY_IMAGE, BrokerImage, Endpoint, PartitionImage
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.cluster_view import ClusterView
from ottla.replication.isr_requests import IsrRequests
from ottla.replication.partition import Partition
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor
from ottla.wire import codec
from ottla.wire.fetch import FIRST_FLEXIBLE, FIRST_TOPIC_IDS, FetchPartition, FetchRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from tests.support.quotas import make_quotas

NODE, NOW_MS, VERSION = 1, 1_700_000_000_000, 17
TOPIC_ID = uuid.UUID(int=7)
ALL = -1


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return self.seconds


class Timer:
    def __init__(self, expire: Callable[[], None]) -> None:
        self.expire = expire
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeConnection:
    """Collects responses; decodes them on request."""

    sends_files = True

    def __init__(self) -> None:
        self.responses: list[bytes] = []
        self.on_close: Callable[[], None] | None = None
        self.on_drain: Callable[[], None] | None = None
        self.on_next_request: Callable[[], None] | None = None

    def reserve(self, pending: object, *, exclusive: bool) -> None: ...

    def watch_next_request(self, callback: Callable[[], None]) -> None:
        self.on_next_request = callback

    def response_bytes_max(self) -> int:
        return 1 << 20

    def account(self, size: int) -> None: ...

    def complete(self, pending: Any, buffers: Sequence[bytes]) -> None:
        self.responses.append(b"".join(bytes(one) for one in buffers))
        if pending.on_sent is not None:
            pending.on_sent()


@dataclass
class Waiter:
    errors: list[ErrorCode] = field(default_factory=list)

    def append_done(self, error: ErrorCode) -> None:
        self.errors.append(error)


class Broker:
    """Partition 0 to n-1 of one topic, each with replicas 1, 2 and 3, led by this broker."""

    def __init__(
        self, partitions: int = 1, config: LogConfig | None = None, *, rack_aware: bool = False
    ) -> None:
        self.clock = FakeClock()
        self.disk = SimDisk(random.Random(1))
        self.disk.makedirs("/d")
        self.executor = InlineExecutor(stepped=True)
        self.deferred: list[Callable[[], None]] = []
        self._soon: list[Callable[[], None]] = []
        self.timers: list[Timer] = []
        self.faults: list[StorageFault] = []
        """Errors of the disk that fetches have reported."""
        self.alterations: list[AlterPartitionRequest] = []
        self.alter_responses: list[Promise[AlterPartitionResponse]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.by_log: dict[Log, Partition] = {}
        self.missing = ErrorCode.UNKNOWN_TOPIC_ID
        """The error of partitions that are not here."""
        self.group_commit = GroupCommit(
            self.executor,
            self.clock,
            defer=self.deferred.append,
            on_progress=lambda log: self.by_log[log].progressed(),
            on_fault=lambda fault: None,
            on_start=lambda log: self.by_log[log].write_started(),
        )
        self.cluster = ClusterView(
            self.clock,
            30.0,
            IsrRequests(NODE, lambda: 100, self._alter, lambda delay, call: self.later.append((delay, call))),
        )
        self.cluster.brokers = {
            one: BrokerImage(
                one,
                one * 10,
                uuid.UUID(int=one),
                (Endpoint("PLAINTEXT", "host", 9090 + one),),
                rack=f"r{one}",
                fenced=False,
            )
            for one in (1, 2, 3)
        }
        self.partitions = [self._open(index, config or LogConfig()) for index in range(partitions)]
        self.sessions = FetchSessions(random.Random(2), 10)
        self.replica_sessions = ReplicaSessions(random.Random(3))
        self.quotas = make_quotas(clock=self.clock)
        self.services = FetchServices(
            cast(Any, self.executor),
            cast(Any, SimpleNamespace(image=EMPTY_IMAGE)),
            cast(Any, self),
            cast(Any, self),
            1 << 20,
            ReadBuffers(),
            self.faults.append,
            rack_aware,
            self.quotas,
            self.sessions.discard,
            Authorization(),
        )

    def _alter(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]:
        self.alterations.append(request)
        promise: Promise[AlterPartitionResponse] = Promise()
        self.alter_responses.append(promise)
        return promise

    def _open(self, index: int, config: LogConfig) -> Partition:
        log = open_log(
            self.disk,
            f"/d/t-{index}",
            TopicPartition("t", index),
            TOPIC_ID,
            config,
            last=LastKnown(clean=True),
            rng=random.Random(1),
            now_ms=NOW_MS,
        )
        partition = Partition(
            log, TOPIC_ID, NODE, self.group_commit.schedule, lambda fault: None, self.cluster
        )
        self.by_log[log] = partition
        partition.become(self.image())
        return partition

    @staticmethod
    def image(
        isr: tuple[int, ...] = (1, 2, 3),
        *,
        leader: int = NODE,
        epoch: int = 0,
        partition_epoch: int = 0,
        replicas: tuple[int, ...] = (1, 2, 3),
    ) -> PartitionImage:
        return PartitionImage(
            replicas=replicas,
            directories=(uuid.UUID(int=0),) * len(replicas),
            isr=isr,
            leader=leader,
            leader_epoch=epoch,
            partition_epoch=partition_epoch,
        )

    # As Replicas and Purgatory

    def lookup(self, key: bytes, index: int, *, by_id: bool) -> Partition:
        if key != (TOPIC_ID.bytes if by_id else b"t") or index >= len(self.partitions):
            raise ApiError(self.missing)
        return self.partitions[index]

    def timer(self, seconds: float, expire: Callable[[], None]) -> Timer:
        self.timers.append(Timer(expire))
        return self.timers[-1]

    def reused_timer(self) -> SessionTimer:
        return SessionTimer(self)

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    # Steps

    def append(self, index: int = 0, acks: int = ALL) -> Waiter:
        """Stage one record."""
        data = memoryview(bytearray(build_batch([NewRecord(b"k", b"v", timestamp=NOW_MS)])))
        appended = self.partitions[index].append(data, acks, NOW_MS, 9)
        waiter = Waiter()
        self.partitions[index].wait_append(appended.last_offset + 1, acks, waiter)
        return waiter

    def start_write(self) -> None:
        """End the iteration of the loop: what is staged is being written."""
        while self.deferred:
            self.deferred.pop(0)()
        self.turn()

    def write(self) -> None:
        """Write and sync what is staged."""
        self.start_write()
        while self.executor.waiting:
            self.executor.step()
        self.turn()

    def turn(self) -> None:
        """Run what is scheduled for the end of the iteration of the loop."""
        while self._soon:
            self._soon.pop(0)()

    def expire(self) -> None:
        """Let the fetches that wait expire."""
        for timer in self.timers:
            if not timer.cancelled:
                timer.expire()
        self.timers.clear()


class SessionTimer:
    """Timers of the requests of a session, as `ReusedTimer`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self._broker.timer(seconds, callback)


class Follower:
    """One other broker, or a consumer (`replica_id` -1), that fetches in one session or without."""

    def __init__(self, broker: Broker, replica_id: int = 2, *, session: bool = True, rack: str = "") -> None:
        self.broker = broker
        self.replica_id = replica_id
        self.rack = rack
        self.connection = FakeConnection()
        self.session_id = 0
        self.session_epoch = 0 if session else -1
        self.version = VERSION

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        epoch: int = 0,
        last_epoch: int | None = None,
        broker_epoch: int | None = None,
        forget: Sequence[int] = (),
        version: int = VERSION,
        wait_ms: int = 500,
        isolation: int = 0,
        log_start: int = 0,
    ) -> None:
        """`last_epoch` is that of the last record of the follower, by default 0, or -1 if it has none."""
        key = TOPIC_ID.bytes if version >= FIRST_TOPIC_IDS else b"t"
        self.version = version
        request = FetchRequest(
            self.replica_id,
            wait_ms,
            1,
            1 << 20,
            isolation,
            self.session_id,
            self.session_epoch,
            [
                (
                    key,
                    [
                        FetchPartition(index, epoch, at, _last_epoch(at, last_epoch), log_start, 1 << 20)
                        for index, at in offsets.items()
                    ],
                )
            ],
            [(key, list(forget))] if forget else [],
            self.rack,
            self.replica_id * 10 if broker_epoch is None else broker_epoch,
        )
        broker = self.broker
        call = SimpleNamespace(
            api_version=version, correlation_id=1, listener=SimpleNamespace(name="PLAINTEXT")
        )
        follower = self.replica_id >= 0
        sessions = broker.replica_sessions if follower else broker.sessions
        context = sessions.context(request, version, broker.clock.monotonic())
        assert not context.error, context.error
        kind = PendingReplicaFetch if follower else PendingFetch
        kind(broker.services, cast(Any, self.connection), cast(Any, call), request, context).start()
        if self.session_epoch >= 0:
            self.session_id = context.session_id
            self.session_epoch += 1

    @property
    def waits(self) -> bool:
        return not self.connection.responses

    def received(self) -> dict[int, PartitionData]:
        """The partitions of the only response."""
        (response,) = self.connection.responses
        self.connection.responses.clear()
        header = 9 if self.version >= FIRST_FLEXIBLE else 8
        decoded = codec.decode(FetchResponse, response[header:], self.version)
        return {one.partition_index: one for topic in decoded.responses for one in topic.partitions}


def _last_epoch(offset: int, last_epoch: int | None) -> int:
    if last_epoch is not None:
        return last_epoch
    return 0 if offset else -1


def caught_up(broker: Broker, *others: Follower) -> Follower:
    """A follower that has the only record of partition 0 and waits, as the `others` do."""
    broker.append(0)
    broker.write()
    follower = Follower(broker)
    for one in (*others, follower):
        one.fetch({0: 0})
        assert one.received()[0].records
        one.fetch({0: 1})
        assert one.waits
    return follower
