"""One Fetch request: finds the records, waits for more if there are too few, sends them from file to socket.

Reading has two steps. Planning finds position and size of the bytes of each partition; it is repeated when a waiting
fetch may have enough. Loading reads the planned bytes into one buffer: at once if the page cache has them, otherwise
in a worker thread, so that a cold read does not block other clients.

A fetch waits until `min_bytes` are available, a partition fails or diverges, `max_wait_ms` expires, its connection
closes, or the broker stops. Unknown partitions do not end the wait; if all are unknown, the response is sent at once.

Consumers may read from followers from version 11 on (KIP-392). The leader names the follower in the consumer's rack as
its preferred read replica if `replica.selector.class` enables that. Fetches of followers are in `replica_fetch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, cast

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.files import OsFile
from ottla.broker import leader_hints
from ottla.broker.access import check_missing
from ottla.broker.fetch.cold_read import ColdRead
from ottla.broker.fetch.sessions import FetchContext
from ottla.broker.net.file_region import SENDFILE_BYTES_MIN, FileRegion, cached
from ottla.broker.net.outbox import PendingResponse
from ottla.replication.readable_partition import NO_EPOCH, Read
from ottla.security.resources import Operation, ResourceType
from ottla.storage.log.log_slice import LogSlice
from ottla.wire.fetch import (
    FIRST_TOPIC_IDS,
    FetchPartition,
    FetchRequest,
    PartitionData,
    TopicData,
    encode_response,
)
from ottla.wire.produce import NodeEndpoint

if TYPE_CHECKING:
    from ottla.base.executor import Executor
    from ottla.base.timer import TimerHandle
    from ottla.broker.authorization import Authorization
    from ottla.broker.dependencies import MetadataCache
    from ottla.broker.net.connection import Connection
    from ottla.broker.net.read_buffers import ReadBuffers
    from ottla.broker.purgatory import Purgatory
    from ottla.broker.quotas import Quotas, TrafficQuota
    from ottla.broker.registry import Call
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.storage.log.log_slice import StagedSlice

_READ_COMMITTED = 1
# Members of an enumeration are slow to look up for each partition.
_READ, _TOPIC = Operation.READ, ResourceType.TOPIC
_FIRST_LEADER_HINTS = 16
_KNOWS_STORAGE_ERROR = 6
_FIRST_FROM_FOLLOWERS = 11
_SMALL_BYTES_MAX = 4096
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
DENIED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED})


class FetchServices:
    """The parts of the node that fetch requests use."""

    __slots__ = (
        "authorization",
        "bytes_max",
        "discard_session",
        "executor",
        "metadata",
        "on_fault",
        "purgatory",
        "quotas",
        "rack_aware",
        "read_buffers",
        "replicas",
    )

    def __init__(
        self,
        executor: Executor,
        metadata: MetadataCache,
        replicas: Replicas,
        purgatory: Purgatory,
        bytes_max: int,
        read_buffers: ReadBuffers,
        on_fault: Callable[[StorageFault], None],
        rack_aware: bool,
        quotas: Quotas,
        discard_session: Callable[[FetchContext], int],
        authorization: Authorization,
    ) -> None:
        self.executor = executor
        self.metadata = metadata
        self.replicas = replicas
        self.purgatory = purgatory
        self.bytes_max = bytes_max
        self.read_buffers = read_buffers
        self.on_fault = on_fault
        self.rack_aware = rack_aware
        """Whether consumers are sent to followers in their racks."""
        self.quotas = quotas
        self.discard_session = discard_session
        """Undo the changes of a session for a response without partitions; returns the session id of the response."""
        self.authorization = authorization


class Planned:
    """One partition of the response and the location of its bytes."""

    __slots__ = ("data", "key", "partition", "size", "slice", "throttled", "view")

    def __init__(self, key: bytes, data: PartitionData) -> None:
        self.key = key
        self.data = data
        self.slice: LogSlice | StagedSlice | None = None
        self.size = 0
        self.throttled = False
        """Whether the bytes count as those of a throttled replica."""
        self.partition: Partition | None = None
        """None if the partition cannot be read here."""
        self.view = memoryview(b"")


class PendingFetch(PendingResponse):
    """The state of one fetch request, from planning to its response."""

    absent: ClassVar[frozenset[ErrorCode]] = UNKNOWN | DENIED
    """Errors of partitions that are not on this broker or may not be read, which do not end the wait."""

    __slots__ = (
        "_available",
        "_buffer",
        "_by_id",
        "_bytes_max",
        "_call",
        "_checking",
        "_committed",
        "_connection",
        "_context",
        "_must_respond",
        "_plan",
        "_plan_bytes",
        "_rack",
        "_request",
        "_services",
        "_timer",
        "_watched",
    )

    def __init__(
        self,
        services: FetchServices,
        connection: Connection,
        call: Call,
        request: FetchRequest,
        context: FetchContext,
    ) -> None:
        super().__init__()
        self._services = services
        self._connection = connection
        self._call = call
        self._request = request
        self._context = context
        self._bytes_max = min(request.max_bytes, services.bytes_max)
        self._by_id = call.api_version >= FIRST_TOPIC_IDS
        self._committed = request.isolation_level == _READ_COMMITTED
        self._rack = request.rack if services.rack_aware else ""
        self._timer: TimerHandle | None = None
        self._watched: dict[Partition, FetchPartition] = {}
        self._available: dict[Partition, int] = {}
        self._checking = False
        self._plan: list[Planned] = []
        self._plan_bytes = 0
        self._must_respond = False
        self._buffer: bytearray | None = None

    def start(self) -> None:
        """Reserve the slot of the response, then respond or wait."""
        connection, request = self._connection, self._request
        connection.reserve(self, exclusive=True)
        self._make_plan()
        wait_ms = request.max_wait_ms
        if wait_ms <= 0 or self._must_respond or self._plan_bytes >= request.min_bytes or not self._watch():
            self._load()
        else:
            self._wait()

    def _wait(self) -> None:
        """Respond later: when there are more records, or when the time has passed."""
        connection = self._connection
        self._timer = self._set_timer(self._request.max_wait_ms / 1000)
        connection.on_close = self._stop_waiting
        connection.on_drain = self._expire

    def _set_timer(self, seconds: float) -> TimerHandle:
        return self._services.purgatory.timer(seconds, self._expire)

    def finds_partitions(self) -> bool:
        """Return whether a partition of the request exists and the client may read it."""
        return any(self._finds(key, wanted.partition) for key, wanted in self._context.wanted)

    def _finds(self, key: bytes, index: int) -> bool:
        try:
            self._find(key, index)
        except ApiError as error:
            return error.code not in UNKNOWN | DENIED
        return True

    def refuse(self) -> None:
        """Respond with UNKNOWN_SERVER_ERROR for the partitions of the request; topics by id are omitted."""
        call, request, code = self._call, self._request, ErrorCode.UNKNOWN_SERVER_ERROR
        self._services.discard_session(self._context)
        topics: list[TopicData] = []
        for key, wanted in () if self._by_id else request.topics:
            partitions = [PartitionData(one.partition, code) for one in wanted]
            for data in partitions:
                data.aborted = ()
            topics.append((key, partitions))
        self._connection.respond(
            encode_response(call.api_version, call.correlation_id, code, request.session_id, topics)
        )

    def _watch(self) -> bool:
        """Wait for the planned partitions; False if there are none."""
        for partition in self._watched:
            partition.read_waiters[self] = None
        return bool(self._watched)

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.read_waiters.pop(self, None)

    # Planning

    def _make_plan(self) -> None:
        """Find the bytes of each partition, in order, within the limits."""
        left = min(self._bytes_max, self._connection.response_bytes_max())
        min_one = left != 0 or self._bytes_max == 0
        plan: list[Planned] = []
        nameless: list[Planned] = []
        refused: list[Planned] = []
        self._plan_bytes = 0
        self._must_respond = False
        self._watched.clear()
        for key, wanted in self._context.wanted:
            try:
                partition = self._find(key, wanted.partition)
            except ApiError as error:
                data = PartitionData(wanted.partition, error.code)
                if error.code in self.absent:
                    data.aborted = None if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER else ()
                    unknown_id = error.code == ErrorCode.UNKNOWN_TOPIC_ID
                    (nameless if unknown_id else refused).append(Planned(key, data))
                else:
                    self._must_respond = True
                    plan.append(Planned(key, data))
                continue
            planned = self._read(key, partition, wanted, min(wanted.max_bytes, left), min_one)
            planned.partition = partition
            self._watched[partition] = wanted
            self._available[partition] = planned.size
            plan.append(planned)
            if planned.size:
                min_one = False
                self._plan_bytes += planned.size
            left = max(0, left - planned.size)
        self._plan = plan + nameless + refused

    def _find(self, key: bytes, index: int) -> Partition:
        replicas, session = self._services.replicas, self._context.session
        authorization = self._services.authorization
        try:
            partition = replicas.lookup(key, index, by_id=self._by_id)
        except ApiError as error:
            if authorization.enabled:
                self._authorize_missing(key)
            if error.code != ErrorCode.UNKNOWN_TOPIC_ID or session is None or key not in session.names:
                raise
            # The topic existed when the session was created; another one may have its name now.
            replicas.get(session.names[key], index)
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID) from error
        if authorization.enabled:
            self._authorize(partition.topic)
        if self._by_id and session is not None and key not in session.names:
            session.names[key] = partition.topic
        return partition

    def _authorize(self, topic: str) -> None:
        """Raise ApiError if the client may not read the topic.

        It is checked in every request, also for partitions of a session: another client may use the session, and rights
        can be revoked.
        """
        if not self._services.authorization.allows(self._call.origin, _READ, _TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _authorize_missing(self, key: bytes) -> None:
        """The same for a topic of which this broker does not have the partition."""
        session, services = self._context.session, self._services
        if session is not None and key in session.names:
            self._authorize(session.names[key])
        else:
            check_missing(
                services.authorization,
                self._call,
                _READ,
                services.metadata.image,
                key,
                by_id=self._by_id,
            )

    def _read(
        self, key: bytes, partition: Partition, wanted: FetchPartition, max_bytes: int, min_one: bool
    ) -> Planned:
        try:
            if self._call.api_version >= _FIRST_FROM_FOLLOWERS:
                partition.check_replica_here(max(NO_EPOCH, wanted.current_leader_epoch))
                if self._rack:
                    preferred = partition.preferred_read_replica(self._rack, wanted.fetch_offset)
                    if preferred >= 0:
                        return self._redirected(key, partition, wanted, preferred)
            else:
                partition.check_leader(max(NO_EPOCH, wanted.current_leader_epoch))
            read = partition.read(
                wanted.fetch_offset,
                max(0, max_bytes),
                committed=self._committed,
                last_fetched_epoch=wanted.last_fetched_epoch,
                min_one=min_one,
            )
            if max_bytes < 0 and wanted.fetch_offset < read.upto and read.diverging is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._planned(key, partition, wanted, read, max_bytes)
        except ApiError as error:
            return self._refused(key, wanted, error)

    def _refused(self, key: bytes, wanted: FetchPartition, error: ApiError) -> Planned:
        self._must_respond = True
        return Planned(key, PartitionData(wanted.partition, error.code))

    def _redirected(
        self, key: bytes, partition: Partition, wanted: FetchPartition, preferred: int
    ) -> Planned:
        """Return no records, but the replica from which the consumer is to read."""
        self._must_respond = True
        planned = self._planned(key, partition, wanted, Read(partition, None, partition.high_watermark))
        planned.data.preferred_read_replica = preferred
        planned.data.aborted = None
        return planned

    def _planned(
        self, key: bytes, partition: Partition, wanted: FetchPartition, read: Read, max_bytes: int = 0
    ) -> Planned:
        data = PartitionData(
            wanted.partition, 0, read.high_watermark, read.last_stable_offset, read.log_start_offset
        )
        planned = Planned(key, data)
        if read.diverging is not None:
            data.diverging = read.diverging
            self._must_respond = True
        elif self._committed and (not max_bytes or wanted.fetch_offset >= read.upto):
            # Otherwise there are records, or the next batch is larger than the limit: then this is null.
            data.aborted = ()
        found = read.slice
        if found is not None and found.size:
            planned.slice, planned.size = found, found.size
            if self._committed:
                data.aborted = partition.aborted_transactions(wanted.fetch_offset, read.upto)
        return planned

    # Waiting

    def partition_moved(self, partition: Partition) -> None:
        self._available.pop(partition, None)
        if not self._checking:
            self._checking = True
            self._services.purgatory.soon(self._check)

    def _check(self) -> None:
        """Check whether partitions that changed have enough bytes now."""
        self._checking = False
        if self._timer is None:
            return
        for partition, wanted in self._watched.items():
            if partition in self._available:
                continue
            planned = self._read(b"", partition, wanted, wanted.max_bytes, True)
            self._available[partition] = planned.size
        if self._must_respond or sum(self._available.values()) >= self._request.min_bytes:
            self._expire()

    def _expire(self) -> None:
        """Respond with the available records."""
        self._stop_waiting()
        self._make_plan()
        self._load()

    def _stop_waiting(self) -> None:
        self._connection.on_close = self._connection.on_drain = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unwatch()

    # Loading and responding

    def _load(self) -> None:
        """Pass the planned bytes to sendfile or read them into one buffer, then respond."""
        quota = self._services.quotas.fetch
        if quota is not None and self._throttled(quota):
            return
        if not self._plan_bytes:
            self._respond()
            return
        files = self._connection.sends_files
        loaded = [
            planned for planned in self._plan if planned.size and not (files and self._pass_through(planned))
        ]
        if not loaded:
            self._respond()
            return
        view = self._take_buffer(sum([planned.size for planned in loaded]))
        cold: list[Planned] = []
        position = 0
        for planned in loaded:
            planned.view = view[position : position + planned.size]
            position += planned.size
            planned.data.records = planned.view
            try:
                if not planned.slice.load(planned.view, wait=False):  # type: ignore[union-attr]
                    cold.append(planned)
            except StorageFault as fault:
                self._failed(planned, fault)
        if cold:
            self._load_cold(cold)
        else:
            self._respond()

    def _take_buffer(self, size: int) -> memoryview:
        """Memory for the planned bytes; only large buffers are counted and reused."""
        if size <= _SMALL_BYTES_MAX:
            return memoryview(bytearray(size))
        buffer = self._buffer = self._services.read_buffers.take(size)
        self._connection.account(len(buffer))
        return memoryview(buffer)

    def _throttled(self, quota: TrafficQuota) -> bool:
        """Respond without records if the client has exceeded its quota; False if it has not."""
        call = self._call
        throttle_ms = quota.charge(self._connection, call, self._plan_bytes, refund=True)
        if not throttle_ms:
            return False
        session_id = self._services.discard_session(self._context)
        buffers = encode_response(
            call.api_version, call.correlation_id, ErrorCode.NONE, session_id, [], throttle_ms=throttle_ms
        )
        self._connection.complete(self, buffers)
        return True

    @staticmethod
    def _pass_through(planned: Planned) -> bool:
        """Use sendfile if the bytes are many and in the page cache; False if not."""
        found = planned.slice
        if planned.size < SENDFILE_BYTES_MIN or not isinstance(found, LogSlice):
            return False
        if not isinstance(found.file, OsFile):
            return False
        file, position, size = found.file, found.position, found.size
        try:
            if not cached(file, position, size):
                return False
            planned.data.records = FileRegion(file, position, size)
        except OSError:
            return False
        return True

    def _load_cold(self, cold: list[Planned]) -> None:
        reads = [(planned, _cold_read(planned)) for planned in cold]

        def work() -> None:
            for _, read in reads:
                read.load()

        def done(error: BaseException | None) -> None:
            for planned, read in reads:
                read.close()
                if read.is_truncated:
                    planned.data = PartitionData(planned.data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                elif read.fault is not None:
                    self._failed(planned, read.fault)
            if error is not None:
                self._connection.close()
                self._release()
                raise error
            self._respond()

        self._services.executor.submit(work, done)

    def _failed(self, planned: Planned, fault: StorageFault) -> None:
        planned.data = PartitionData(planned.data.index, ErrorCode.KAFKA_STORAGE_ERROR)
        self._services.on_fault(fault)

    def _respond(self) -> None:
        call = self._call
        self._count()
        planned_data = [(planned.key, planned.data) for planned in self._plan]
        failed = [data for _, data in planned_data if data.error_code]
        if failed and call.api_version < _KNOWS_STORAGE_ERROR:
            for data in failed:
                if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        topics: list[tuple[bytes, list[PartitionData]]] = []
        for key, data in self._context.select(planned_data):
            if not topics or topics[-1][0] != key:
                topics.append((key, []))
            topics[-1][1].append(data)
        session_id = self._context.session_id
        endpoints = self._hints(topics) if failed and call.api_version >= _FIRST_LEADER_HINTS else ()
        made: list[TopicData] = list(topics)
        buffers = encode_response(
            call.api_version, call.correlation_id, ErrorCode.NONE, session_id, made, endpoints
        )
        if self._buffer is not None:
            # Not earlier: a worker may still fill the buffer, even after the connection has closed.
            self.on_sent = self._release
        self._connection.complete(self, buffers)

    def _count(self) -> None:
        """Count the response for the metrics of its topics."""
        for planned in self._plan:
            if planned.partition is not None:
                traffic = planned.partition.traffic
                traffic.fetch_requests += 1
                traffic.bytes_out += planned.size
                if planned.data.error_code:
                    traffic.failed_fetch_requests += 1

    def _release(self) -> None:
        """Return the buffer to its pool."""
        buffer, self._buffer = self._buffer, None
        # Without this reference to itself the request is freed at once, not by the garbage collector.
        self.on_sent = None
        if buffer is not None:
            self._connection.account(-len(buffer))
            self._services.read_buffers.give(buffer)

    def _hints(self, topics: list[tuple[bytes, list[PartitionData]]]) -> list[NodeEndpoint]:
        image, leaders = self._services.metadata.image, set[int]()
        for key, partitions in topics:
            for data in partitions:
                if data.error_code in leader_hints.HINTED:
                    data.current_leader = leader_hints.current_leader(
                        image, key, data.index, by_id=self._by_id
                    )
                    if data.current_leader is not None:
                        leaders.add(data.current_leader[0])
        return leader_hints.endpoints(image, leaders, self._call.origin.listener.name) if leaders else []


def _cold_read(planned: Planned) -> ColdRead:
    return ColdRead(cast("Partition", planned.partition).log, cast("LogSlice", planned.slice), planned.view)
