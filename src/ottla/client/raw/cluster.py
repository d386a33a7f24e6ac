"""A cluster as a client sees it: connections to its brokers, who leads what, who coordinates whom.

Everything blocks, for `default.api.timeout.ms` at most. One connection per broker is made when needed and kept. What
brokers told about leaders and coordinators is kept until they deny it or `metadata.max.age.ms` is over. May be used
from several threads. After a fork the child starts with connections of its own: a socket that two processes write to
would mix their requests.
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
from ottla.client.raw import administering, fetching, offsets
from ottla.client.raw.connection import Connection
from ottla.client.raw.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TryAgain,
    UnknownTopic,
    code_name,
    is_retriable,
)
from ottla.client.raw.metadata import NO_LEADER, PartitionInfo, TopicInfo, brokers_of, topic_of
from ottla.client.raw.patience import Patience, Pause, pause
from ottla.client.raw.settings import ClientSettings
from ottla.client.raw.tls import context_of
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
_UNKNOWN_TOPIC_PATIENCE_S = 3.0
"""A topic that was just made may not be known everywhere yet; one that stays unknown this long is not there."""
_FIND_ONE = 3
"""The newest FindCoordinator with a single key."""


class Cluster:
    """One cluster, reached with one set of settings."""

    def __init__(self, settings: ClientSettings, *, clock: Clock | None = None, wait: Pause = pause) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self._wait = wait
        self._context: ssl.SSLContext | None = None if settings.tls is None else context_of(settings.tls)
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
        """Rises when another cluster answers at the same addresses."""

    def _own(self) -> None:
        """In a child of a fork: leave the parent's connections to the parent."""
        if os.getpid() != self._pid:
            inherited = list(self._connections.values())
            self._reset()
            for connection in inherited:
                connection.close()

    def close(self) -> None:
        self._own()
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def patience(self, what: str) -> Patience:
        """A deadline for one call."""
        return Patience(what, self.settings, self.clock, self._wait)

    # --- connections

    def connection(self, node: int) -> Connection:
        """To the broker of that id; raises ConnectionLost."""
        self._own()
        with self._lock:
            address = self._brokers.get(node)
            if address is None:
                raise ConnectionLost(f"broker {node} is not known")
            return self._connection_to(address)

    def any_connection(self) -> Connection:
        """To whichever broker can be reached, first where one is open already."""
        self._own()
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
        made = self._connections[address] = Connection(*address, self.settings, self._context)
        if kept is not None:
            self._learn(made.ask(MetadataRequest(topics=[]), MetadataResponse))
        return made

    def _learn(self, answer: MetadataResponse) -> None:
        """Which brokers there are; and whether it is the same cluster as before, for of another nothing is known."""
        with self._lock:
            if self._id is not None and answer.cluster_id not in (None, self._id):
                self.generation += 1
                for known in (self._brokers, self._topics, self._batch_limits, self._coordinators):
                    known.clear()
            self._id = answer.cluster_id or self._id
            self._brokers.update(brokers_of(answer))

    def brokers(self) -> list[int]:
        """The ids of the brokers that the cluster has now."""
        patience = self.patience("asking for brokers")
        while True:
            try:
                answer = self.any_connection().ask(MetadataRequest(topics=[]), MetadataResponse)
            except ConnectionLost as error:
                patience.again(error)
            else:
                self._learn(answer)
                return sorted(brokers_of(answer))

    # --- topics and leaders

    def topics(self, names: Iterable[str] | None = None, *, create: bool = False) -> dict[str, TopicInfo]:
        """What the cluster says now about these topics, or about all; those that do not exist are left out.

        With `create` a cluster that makes topics when they are asked for does so.
        """
        wanted = None if names is None else list(dict.fromkeys(names))
        patience = self.patience("asking for topics")
        while True:
            try:
                return self._ask_topics(wanted, create)
            except (ConnectionLost, TryAgain) as error:
                patience.again(error)

    def _ask_topics(self, names: list[str] | None, create: bool) -> dict[str, TopicInfo]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        answer = self.any_connection().ask(request, MetadataResponse)
        found: dict[str, TopicInfo] = {}
        for topic in answer.topics:
            code = topic.error_code
            if code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                found[topic.name or ""] = topic_of(topic)
            elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            elif is_retriable(code):
                raise TryAgain(f"topic {topic.name}: {code_name(code)}")
            else:
                raise Refused(f"topic {topic.name}", code)
        now = self.clock.monotonic()
        self._learn(answer)
        with self._lock:
            for name in names or ():
                self._topics.pop(name, None)
            self._topics.update({name: (now, info) for name, info in found.items()})
        return found

    def topic(self, name: str, partition: int | None = None, *, create: bool = False) -> TopicInfo:
        """A topic as last heard of; raises UnknownTopic if it, or that partition of it, stays unknown."""
        self._own()
        kept = self._topics.get(name)
        if kept is not None and self._is_young(kept[0]) and _has(kept[1], partition):
            return kept[1]
        what = f"topic {name}" if partition is None else f"partition {name}-{partition}"
        patience = self.patience(f"asking for {what}")
        while True:
            found = self.topics([name], create=create).get(name)
            if found is not None and _has(found, partition):
                return found
            unknown = UnknownTopic(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if patience.spent_s > _UNKNOWN_TOPIC_PATIENCE_S:
                raise unknown
            patience.again(unknown)

    def _is_young(self, heard_s: float) -> bool:
        return self.clock.monotonic() - heard_s < self.settings.metadata_max_age_ms / 1000

    def batch_limit(self, name: str) -> int | None:
        """How large a batch of the topic may be, as last heard of; None if the cluster does not tell."""
        self._own()
        kept = self._batch_limits.get(name)
        if kept is None or not self._is_young(kept[0]):
            kept = (self.clock.monotonic(), administering.batch_limit(self, name))
            with self._lock:
                self._batch_limits[name] = kept
        return kept[1]

    def topic_id(self, name: str) -> Uuid:
        return self.topic(name).id

    def leader(self, tp: TopicPartition) -> PartitionInfo:
        """Who leads a partition; raises TryAgain while nobody does."""
        found = self.topic(tp.topic, tp.partition).partitions[tp.partition]
        if found.leader == NO_LEADER:
            self.forget_topic(tp.topic)
            raise TryAgain(f"partition {tp} has no leader")
        return found

    def forget_topic(self, name: str, *, older_than_s: float = 0.0) -> None:
        """What is known of a topic proved wrong; or may be, if it is that old."""
        limit_s = self.clock.monotonic() - older_than_s
        with self._lock:
            for known in (self._topics, self._batch_limits):
                if name in known and known[name][0] <= limit_s:
                    del known[name]

    # --- coordinators

    def coordinator(self, kind: int, key: str) -> Connection:
        """To the coordinator of a group or a transactional id; raises ConnectionLost or TryAgain."""
        self._own()
        node = self._coordinators.get((kind, key))
        return self.connection(self._find_coordinator(kind, key) if node is None else node)

    def _find_coordinator(self, kind: int, key: str) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = self.any_connection().ask(request, FindCoordinatorResponse, newest=_FIND_ONE)
        if answer.error_code:
            if is_retriable(answer.error_code):
                raise TryAgain(f"no coordinator of {key} yet: {code_name(answer.error_code)}")
            raise Refused(f"coordinator of {key}", answer.error_code, answer.error_message)
        with self._lock:
            self._brokers[answer.node_id] = (answer.host, answer.port)
            self._coordinators[kind, key] = answer.node_id
        return answer.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It denied to be the coordinator, or cannot be reached."""
        with self._lock:
            self._coordinators.pop((kind, key), None)

    def ask_coordinator(
        self, kind: int, key: str, request: Message, response: type[R], *, newest: int | None = None
    ) -> R:
        """One question to a coordinator; whether its answer asks for another attempt is the caller's to see."""
        try:
            return self.coordinator(kind, key).ask(request, response, newest=newest)
        except ConnectionLost:
            self.forget_coordinator(kind, key)
            raise

    def features(self) -> dict[str, int]:
        """The finalised features of the cluster, such as transaction.version."""
        patience = self.patience("asking for features")
        while True:
            try:
                return self.any_connection().features
            except ClientError as error:
                if not isinstance(error, ConnectionLost):
                    raise
                patience.again(error)

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
    ) -> fetching.Fetched:
        """Whole batches of a partition from the one with `offset` on; what is left out comes from the settings."""
        limits = fetching.Limits.of(self.settings, max_bytes, max_wait_ms, min_bytes, committed)
        return fetching.fetch(self, tp, offset, limits)

    def stream(
        self,
        tp: TopicPartition,
        offset: int,
        end_offset: int,
        *,
        max_bytes: int | None = None,
        max_wait_ms: int | None = None,
        committed: bool | None = None,
    ) -> Iterator[tuple[int, fetching.Fetched]]:
        """Answers up to `end_offset`, each with the offset it was asked for; the next is under way meanwhile.

        Ends early at an answer without a whole batch: up to the end there is nothing more that may be read now.
        """
        limits = fetching.Limits.of(self.settings, max_bytes, max_wait_ms, None, committed)
        return fetching.stream(self, tp, offset, end_offset, limits)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Offset and timestamp of EARLIEST, LATEST, MAX_TIMESTAMP or the first record at a time (ms) or later.

        The offset is -1 where no record is that young. `committed` counts the end as the last stable offset.
        """
        return offsets.list_offsets(self, wanted, committed)

    def commit_offsets(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Keep positions for a group that has no members; raises Refused if it has."""
        offsets.commit_offsets(self, group, positions)

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The kept positions of a group; partitions without one are left out."""
        return offsets.committed_offsets(self, group, partitions)


def _has(topic: TopicInfo, partition: int | None) -> bool:
    return bool(topic.partitions) if partition is None else partition in topic.partitions
