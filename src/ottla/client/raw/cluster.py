"""A cluster from the view of a client: connections to brokers, leaders of partitions, coordinators.

Every call blocks, for `default.api.timeout.ms` at most. One connection per broker is opened on demand and kept.
Leaders and coordinators are cached until a broker reports that they have changed, or for `metadata.max.age.ms`. A
cluster may be used from several threads. A child process that was forked opens its own connections: two processes
that write to one socket would mix their requests.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition, Uuid
from ottla.client.raw import admin, fetch, offsets
from ottla.client.raw.connection import Connection
from ottla.client.raw.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    RetriableError,
    UnknownTopic,
    error_name,
    is_retriable,
)
from ottla.client.raw.fetch import Fetched
from ottla.client.raw.metadata import NO_LEADER, PartitionInfo, TopicInfo, brokers_of, topic_of
from ottla.client.raw.retry import OnUnreachable, Retry, Sleep, sleep
from ottla.client.raw.settings import ClientSettings
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""
_UNKNOWN_TOPIC_TIMEOUT_S = 3.0
"""Not every broker lists a new topic at once. A topic that is not listed for this long does not exist."""
_FIND_ONE = 3
"""The newest version of FindCoordinator with a single key."""


class Cluster:
    """One cluster and the settings to connect to it."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        clock: Clock | None = None,
        wait: Sleep = sleep,
        on_unreachable: OnUnreachable | None = None,
    ) -> None:
        """`on_unreachable` is called if no broker can be reached and a call is retried for longer than a second."""
        self.settings = settings
        self._on_unreachable = on_unreachable
        self.clock: Clock = clock or SystemClock()
        self._wait = wait
        self._context: ssl.SSLContext | None = None
        if settings.tls is not None:
            from ottla.client.raw.tls import context_of

            self._context = context_of(settings.tls)
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, tuple[float, TopicInfo]] = {}
        self._batch_limits: dict[str, tuple[float, int | None]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._id: str | None = None
        self.generation = 0
        """Incremented when another cluster responds at the same addresses."""

    def _reset_after_fork(self) -> None:
        """Discard the connections of the parent process in a forked child."""
        if os.getpid() != self._pid:
            inherited = list(self._connections.values())
            self._reset()
            for connection in inherited:
                connection.close()

    def close(self) -> None:
        self._reset_after_fork()
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def retry(self, what: str) -> Retry:
        """The retries of one call."""
        return Retry(what, self.settings, self.clock, self._wait, self._on_unreachable)

    # --- connections

    def connection(self, node: int) -> Connection:
        """The connection to a broker. Raise ConnectionLost."""
        self._reset_after_fork()
        with self._lock:
            address = self._brokers.get(node)
            if address is None:
                raise ConnectionLost(f"broker {node} has no known address")
            return self._connection_to(address)

    def any_connection(self) -> Connection:
        """A connection to any broker; an open connection is preferred. Raise ConnectionLost."""
        self._reset_after_fork()
        with self._lock:
            for connection in self._connections.values():
                if not connection.closed:
                    return connection
            failures = []
            for address in dict.fromkeys([*self.settings.bootstrap, *self._brokers.values()]):
                try:
                    return self._connection_to(address)
                except ConnectionLost as error:
                    failures.append(str(error))
            raise ConnectionLost("; ".join(failures))

    def _connection_to(self, address: tuple[str, int]) -> Connection:
        kept = self._connections.get(address)
        if kept is not None and not kept.closed:
            return kept
        made = self._connections[address] = Connection(*address, self.settings, self._context, self.clock)
        if kept is not None:
            self._update_brokers(made.request(MetadataRequest(topics=[]), MetadataResponse))
        return made

    def _update_brokers(self, response: MetadataResponse) -> None:
        """Update the addresses of the brokers; clear all caches if another cluster has responded."""
        with self._lock:
            if self._id is not None and response.cluster_id not in (None, self._id):
                self.generation += 1
                for known in (self._brokers, self._topics, self._batch_limits, self._coordinators):
                    known.clear()
            self._id = response.cluster_id or self._id
            self._brokers.update(brokers_of(response))

    def brokers(self) -> list[int]:
        """The ids of the brokers of the cluster."""
        return sorted(brokers_of(self.metadata(())))

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """The brokers and these topics, or all, as one broker reports them, with the error codes of topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        retry = self.retry("requesting metadata")
        while True:
            try:
                response = self.any_connection().request(request, MetadataResponse)
            except ConnectionLost as error:
                retry.backoff(error)
            else:
                self._update_brokers(response)
                return response

    # --- topics and leaders

    def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> dict[str, TopicInfo]:
        """Request the metadata of these topics, or of all. Topics that do not exist are omitted.

        With `create` the cluster creates missing topics if `auto.create.topics.enable` is set.
        """
        wanted = None if names is None else list(dict.fromkeys(names))
        retry = self.retry("listing topics")
        while True:
            try:
                return self._request_topics(wanted, create)
            except (ConnectionLost, RetriableError) as error:
                retry.backoff(error)

    def _request_topics(self, names: list[str] | None, create: bool) -> dict[str, TopicInfo]:
        requested = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=requested, allow_auto_topic_creation=create)
        response = self.any_connection().request(request, MetadataResponse)
        found: dict[str, TopicInfo] = {}
        for topic in response.topics:
            code = topic.error_code
            if code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                found[topic.name or ""] = topic_of(topic)
            elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            elif is_retriable(code):
                raise RetriableError(f"topic {topic.name}: {error_name(code)}")
            else:
                raise Refused(f"topic {topic.name}", code)
        now = self.clock.monotonic()
        self._update_brokers(response)
        with self._lock:
            for name in names or ():
                self._topics.pop(name, None)
            self._topics.update({name: (now, info) for name, info in found.items()})
        return found

    def topic(
        self, name: str, partition: int | None = None, *, create: bool = False, wait: bool = False
    ) -> TopicInfo:
        """The cached metadata of a topic. Raise UnknownTopic if the topic, or that partition of it, does not exist.

        With `create`, or with `wait` for a topic that was just created, it is looked up repeatedly for a few seconds.
        """
        self._reset_after_fork()
        kept = self._topics.get(name)
        if kept is not None and self._is_fresh(kept[0]) and _has(kept[1], partition):
            return kept[1]
        what = f"topic {name}" if partition is None else f"partition {name}-{partition}"
        retry = self.retry(f"looking up {what}")
        while True:
            found = self.topics([name], create=create).get(name)
            if found is not None and _has(found, partition):
                return found
            unknown = UnknownTopic(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it does not exist")
            if not (create or wait) or retry.elapsed_s > _UNKNOWN_TOPIC_TIMEOUT_S:
                raise unknown
            retry.backoff(unknown)

    def _is_fresh(self, received_s: float) -> bool:
        return self.clock.monotonic() - received_s < self.settings.metadata_max_age_ms / 1000

    def batch_limit(self, name: str) -> int | None:
        """The cached `max.message.bytes` of a topic; None if the cluster does not report it."""
        self._reset_after_fork()
        kept = self._batch_limits.get(name)
        if kept is None or not self._is_fresh(kept[0]):
            kept = (self.clock.monotonic(), admin.batch_limit(self, name))
            with self._lock:
                self._batch_limits[name] = kept
        return kept[1]

    def topic_id(self, name: str) -> Uuid:
        return self.topic(name).id

    def leader(self, tp: TopicPartition) -> PartitionInfo:
        """The leader of a partition. Raise RetriableError if it has none."""
        found = self.topic(tp.topic, tp.partition, wait=True).partitions[tp.partition]
        if found.leader == NO_LEADER:
            self.forget_topic(tp.topic)
            raise RetriableError(f"partition {tp} has no leader")
        return found

    def forget_topic(self, name: str, *, older_than_s: float = 0.0) -> None:
        """Remove a topic from the caches if its entry is at least that old."""
        limit_s = self.clock.monotonic() - older_than_s
        with self._lock:
            for known in (self._topics, self._batch_limits):
                if name in known and known[name][0] <= limit_s:
                    del known[name]

    # --- coordinators

    def coordinator(self, kind: int, key: str) -> Connection:
        """The connection to the coordinator of a group or transactional id. Raise ConnectionLost or RetriableError."""
        self._reset_after_fork()
        node = self._coordinators.get((kind, key))
        return self.connection(self._find_coordinator(kind, key) if node is None else node)

    def _find_coordinator(self, kind: int, key: str) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        response = self.any_connection().request(request, FindCoordinatorResponse, newest=_FIND_ONE)
        if response.error_code:
            if is_retriable(response.error_code):
                raise RetriableError(f"no coordinator of {key} yet: {error_name(response.error_code)}")
            raise Refused(f"coordinator of {key}", response.error_code, response.error_message)
        with self._lock:
            self._brokers[response.node_id] = (response.host, response.port)
            self._coordinators[kind, key] = response.node_id
        return response.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Remove a coordinator from the cache: it has changed or cannot be reached."""
        with self._lock:
            self._coordinators.pop((kind, key), None)

    def request_coordinator(
        self, kind: int, key: str, request: Message, response: type[R], *, newest: int | None = None
    ) -> R:
        """Send one request to a coordinator. The caller checks the error code of the response."""
        try:
            return self.coordinator(kind, key).request(request, response, newest=newest)
        except ConnectionLost:
            self.forget_coordinator(kind, key)
            raise

    def features(self) -> dict[str, int]:
        """The finalized features of the cluster, such as transaction.version."""
        retry = self.retry("reading the finalized features")
        while True:
            try:
                return self.any_connection().features
            except ClientError as error:
                if not isinstance(error, ConnectionLost):
                    raise
                retry.backoff(error)

    # --- reading

    def fetch(
        self,
        tp: TopicPartition,
        offset: int,
        *,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        min_bytes: int | None = None,
        committed: bool | None = None,
    ) -> Fetched:
        """Fetch batches of a partition, from the one that contains `offset`. Defaults come from the settings."""
        limits = fetch.Limits.of(self.settings, max_bytes, max_wait_ms, min_bytes, committed)
        return fetch.fetch(self, tp, offset, limits)

    def stream(
        self,
        tp: TopicPartition,
        offset: int,
        end_offset: int,
        *,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        committed: bool | None = None,
    ) -> Iterator[tuple[int, Fetched]]:
        """Fetch up to `end_offset`: yield each response with its fetch offset, while the next request is in flight.

        End early at a response without a complete batch: no more records up to `end_offset` can be read now.
        """
        limits = fetch.Limits.of(self.settings, max_bytes, max_wait_ms, None, committed)
        return fetch.stream(self, tp, offset, end_offset, limits)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and timestamp of EARLIEST, LATEST, MAX_TIMESTAMP, or of the first record at or after a time (ms).

        The offset is -1 if no record is that recent. With `committed`, LATEST is the last stable offset.
        """
        return offsets.list_offsets(self, wanted, committed)

    def commit_offsets(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members. Raise Refused if it has members."""
        offsets.commit_offsets(self, group, positions)

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The committed offsets of a group. Partitions without one are omitted."""
        return offsets.committed_offsets(self, group, partitions)


def _has(topic: TopicInfo, partition: int | None) -> bool:
    return bool(topic.partitions) if partition is None else partition in topic.partitions
