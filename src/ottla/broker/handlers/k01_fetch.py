"""Fetch, versions 4-18: sessions from 7 (KIP-227), topic ids from 13, leader hints from 16.

- At least one batch is returned, regardless of the limits; later partitions get the rest of `max_bytes`.
- read_committed reads up to the last stable offset and lists aborted transactions ([] if none, null otherwise).
- OFFSET_OUT_OF_RANGE is returned with -1 for every offset; partitions with an error are listed last.
- The current leader epoch of the client is checked (74, 75); `last_fetched_epoch` can yield a diverging epoch.
- Consumers read from followers from version 11 on; before, a follower refuses them (6).
- Clients before version 6 do not know KAFKA_STORAGE_ERROR: they get NOT_LEADER_OR_FOLLOWER, after which they retry.
- A request with a replica id is one of a follower (`fetch.replica_fetch`).
- An unknown isolation level fails the whole request (-1) if one of its partitions exists. The session is found first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ErrorCode, StorageFault
from ottla.base.executor import Executor
from ottla.base.rng import Random
from ottla.broker.access import allows_cluster
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.fetch.fetch_request import FetchServices, PendingFetch
from ottla.broker.fetch.replica_fetch import PendingReplicaFetch
from ottla.broker.fetch.replica_sessions import ReplicaSessions
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.net.connection import Connection
from ottla.broker.net.read_buffers import ReadBuffers
from ottla.broker.purgatory import Purgatory
from ottla.broker.quotas import Quotas
from ottla.broker.registry import Call, handles_frames
from ottla.broker.requirements import resources
from ottla.config.broker import BrokerConfig
from ottla.replication.readable_partition import is_rack_aware
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.fetch import FetchRequest, PartitionData, encode_response, parse_request

_ISOLATION_LEVELS: Final = (0, 1)


@handles_frames(
    ApiKey.FETCH,
    versions=(4, 18),
    requires=resources(
        (Operation.READ, ResourceType.TOPIC), (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    ),
)
class Fetch:
    """Reads records of partitions of which this broker has a replica."""

    def __init__(
        self,
        clock: Clock,
        config: BrokerConfig,
        rng: Random,
        executor: Executor,
        metadata: MetadataCache,
        replicas: Replicas,
        purgatory: Purgatory,
        fetch_sessions: FetchSessions,
        fetch_bytes_max: int,
        read_buffers: ReadBuffers,
        on_fault: Callable[[StorageFault], None],
        quotas: Quotas,
        authorization: Authorization,
    ) -> None:
        self._authorization = authorization
        self._clock = clock
        self._sessions = fetch_sessions
        self._replica_sessions = ReplicaSessions(rng)
        replicas.on_served.append(self._replica_sessions.appeared)
        rack_aware = is_rack_aware(config.text("replica.selector.class"))
        self._services = FetchServices(
            executor,
            metadata,
            replicas,
            purgatory,
            fetch_bytes_max,
            read_buffers,
            on_fault,
            rack_aware,
            quotas,
            fetch_sessions.discard,
            authorization,
        )

    def handle(self, connection: Connection, frame: memoryview, body: int, call: Call) -> None:
        request = parse_request(frame, body, call.api_version)
        if request.replica_id >= 0:
            self._handle_replica(connection, request, call)
            return
        quota = self._services.quotas.fetch
        if quota is not None:
            request = _within(request, quota.window_bytes(call))
        context = self._sessions.context(request, call.api_version, self._clock.monotonic())
        if context.error:
            connection.respond(encode_response(call.api_version, call.correlation_id, context.error, 0, []))
            return
        self._start(PendingFetch(self._services, connection, call, request, context), request)

    def _handle_replica(self, connection: Connection, request: FetchRequest, call: Call) -> None:
        if not allows_cluster(self._authorization, call, Operation.CLUSTER_ACTION):
            connection.respond(_denied(request, call))
            return
        call.started = 0.0  # quotas do not include replication
        context = self._replica_sessions.context(request, call.api_version, self._clock.monotonic())
        if context.error:
            connection.respond(encode_response(call.api_version, call.correlation_id, context.error, 0, []))
            return
        self._start(PendingReplicaFetch(self._services, connection, call, request, context), request)

    @staticmethod
    def _start(pending: PendingFetch, request: FetchRequest) -> None:
        if request.isolation_level in _ISOLATION_LEVELS or not pending.finds_partitions():
            pending.start()
        else:
            pending.refuse()


def _within(request: FetchRequest, bytes_max: int | None) -> FetchRequest:
    """The request for at most `bytes_max` bytes of records: more would always be throttled."""
    if bytes_max is None:
        return request
    most = min(request.max_bytes, bytes_max)
    return request._replace(max_bytes=most, min_bytes=min(request.min_bytes, most))


def _denied(request: FetchRequest, call: Call) -> list[bytes | memoryview]:
    """Return TOPIC_AUTHORIZATION_FAILED for all partitions; a client that is not a follower gets no session."""
    topics = []
    for key, wanted in request.topics:
        partitions = [PartitionData(one.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for one in wanted]
        for data in partitions:
            data.aborted = ()
        topics.append((key, partitions))
    return encode_response(call.api_version, call.correlation_id, ErrorCode.NONE, 0, topics)
