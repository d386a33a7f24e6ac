"""Metadata (key 3), versions 0-13: brokers and topics; can create missing topics.

- Topics: null means all (in version 0 an empty list), otherwise names or, from version 12 on, ids. An id below version
  12 makes the whole request invalid. If a request has ids and names, the names are ignored, as in Kafka.
- A missing topic is created if the client and `auto.create.topics.enable` allow it. Kafka first responds with
  UNKNOWN_TOPIC_OR_PARTITION and the client retries; here the response waits until the topic exists. A topic that
  the controller refuses to create (its name collides with another's, it is the metadata log) stays unknown (3).
- Partitions are sorted by index: clients map keys to partitions by position.
- A leader that is not registered gives LEADER_NOT_AVAILABLE, one without the client's listener LISTENER_NOT_FOUND (6+).
  Version 0 leaves out replicas on brokers that are not available (REPLICA_NOT_AVAILABLE).
- The controller is a random live broker, as in Kafka: every broker forwards requests to the active controller.
- Responses without errors are cached in encoded form until the metadata changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.rng import Random
from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from ottla.broker.coordination.internal_topics import creation
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import Call, handles
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_FIRST_BY_ID: Final = 12
_CREATION_TIMEOUT_MS: Final = 30_000
_CACHED_MAX: Final = 256
_NO_BROKER: Final = -1
_FIRST_LISTENER_ERRORS: Final = 6


class _ResponseCache:
    """Encoded responses that are valid for one image."""

    def __init__(self) -> None:
        self._image: MetadataImage | None = None
        self._bodies: dict[tuple[object, ...], bytes] = {}

    def of(self, image: MetadataImage) -> dict[tuple[object, ...], bytes]:
        if self._image is not image or len(self._bodies) >= _CACHED_MAX:
            self._image = image
            self._bodies = {}
        return self._bodies


@handles(ApiKey.METADATA, MetadataRequest, versions=(0, 13))
@dataclass(frozen=True)
class Metadata:
    """Describes the newest image of this node."""

    cluster_id: str
    rng: Random
    config: BrokerConfig
    settings: DynamicConfig
    metadata: MetadataCache
    forwarder: Forwarder
    _cache: _ResponseCache = field(default_factory=_ResponseCache, init=False)

    async def handle(self, request: MetadataRequest, call: Call) -> MetadataResponse | bytes:
        version = call.api_version
        wanted = request.topics
        if wanted is None or (version == 0 and not wanted):
            wanted = None
        elif invalid := _invalid(wanted, version):
            return MetadataResponse(topics=invalid, error_code=invalid[0].error_code)
        key = (version, call.listener.name, _key(wanted), *_operations_requested(request))
        cached = self._cache.of(self.metadata.image)
        body = cached.get(key)
        if body is not None:
            return body
        topics = self._all(request, call) if wanted is None else await self._some(wanted, request, call)
        response = self._response(request, call, topics)
        if all(topic.error_code == 0 for topic in topics) and cached is self._cache.of(self.metadata.image):
            body = cached[key] = codec.encode(response, version)
            return body
        return response

    def _response(
        self, request: MetadataRequest, call: Call, topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        brokers = []
        for broker in self.metadata.image.brokers.values():
            for endpoint in () if broker.fenced else broker.endpoints:
                if endpoint.name == call.listener.name:
                    brokers.append(
                        MetadataResponseBroker(
                            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                        )
                    )
        requested = request.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=brokers,
            cluster_id=self.cluster_id,
            controller_id=self._random_broker(),
            topics=topics,
            cluster_authorized_operations=CLUSTER_OPERATIONS if requested else NOT_REQUESTED,
        )

    def _random_broker(self) -> int:
        live = [broker.broker_id for broker in self.metadata.image.brokers.values() if not broker.fenced]
        return live[self.rng.randrange(len(live))] if live else _NO_BROKER

    def _all(self, request: MetadataRequest, call: Call) -> list[MetadataResponseTopic]:
        image = self.metadata.image
        return [_topic(topic, request, image, call) for topic in image.topics.by_name.values()]

    async def _some(
        self, wanted: Sequence[MetadataRequestTopic], request: MetadataRequest, call: Call
    ) -> list[MetadataResponseTopic]:
        if any(topic.topic_id != ZERO_UUID for topic in wanted):
            ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
            return [_by_id(topic_id, request, self.metadata.image, call) for topic_id in ids]
        names = list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))
        by_name = self.metadata.image.topics.by_name
        missing = [name for name in names if name not in by_name]
        if missing and (request.allow_auto_topic_creation or call.api_version < 4):
            await self._create([name for name in missing if _name_error(name) is None])
        image = self.metadata.image
        by_name = image.topics.by_name
        found = [_topic(by_name[name], request, image, call) for name in names if name in by_name]
        return found + [_missing(name, request) for name in names if name not in by_name]

    async def _create(self, names: list[str]) -> None:
        """Create the topics if that is enabled. As in Kafka, a topic that cannot be created stays unknown."""
        if names and self.settings.bool("auto.create.topics.enable"):
            topics = [creation(name, self.config, self.metadata.image) for name in names]
            await self.forwarder.create_topics(
                CreateTopicsRequest(topics=topics, timeout_ms=_CREATION_TIMEOUT_MS)
            )


def _invalid(wanted: list[MetadataRequestTopic], version: int) -> list[MetadataResponseTopic]:
    """Return the response to a request that is invalid in its version; empty if it is valid."""
    by_id = any(topic.topic_id != ZERO_UUID for topic in wanted)
    nameless = any(topic.name is None and topic.topic_id == ZERO_UUID for topic in wanted)
    if not (nameless or (by_id and version < _FIRST_BY_ID)):
        return []
    # From version 12 on a topic without name and id makes Kafka fail with an unexpected exception.
    code = ErrorCode.UNKNOWN_SERVER_ERROR if version >= _FIRST_BY_ID else ErrorCode.INVALID_REQUEST
    return [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in wanted
    ]


def _key(wanted: list[MetadataRequestTopic] | None) -> object:
    return None if wanted is None else tuple((topic.name, topic.topic_id) for topic in wanted)


def _operations_requested(request: MetadataRequest) -> tuple[bool, bool]:
    return request.include_topic_authorized_operations, request.include_cluster_authorized_operations


def _name_error(name: str) -> ErrorCode | None:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return None


def _missing(name: str, request: MetadataRequest) -> MetadataResponseTopic:
    requested = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        error_code=_name_error(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS if requested else NOT_REQUESTED,
    )


def _by_id(
    topic_id: Uuid, request: MetadataRequest, image: MetadataImage, call: Call
) -> MetadataResponseTopic:
    topic = image.topics.by_id.get(topic_id)
    if topic is not None:
        return _topic(topic, request, image, call)
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _topic(
    topic: TopicImage, request: MetadataRequest, image: MetadataImage, call: Call
) -> MetadataResponseTopic:
    requested = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, one, image, call) for index, one in topic.partitions.items()],
        topic_authorized_operations=TOPIC_OPERATIONS if requested else NOT_REQUESTED,
    )


def _partition(
    index: int, partition: PartitionImage, image: MetadataImage, call: Call
) -> MetadataResponsePartition:
    listener, version = call.listener.name, call.api_version
    leader = leader_at(partition, image, listener)
    replicas, isr = list(partition.replicas), list(partition.isr)
    error = ErrorCode.NONE
    if version == 0:
        offline = {one for one in replicas if not _is_available(one, image, listener)}
        replicas = [one for one in replicas if one not in offline]
        isr = [one for one in isr if one not in offline]
        error = ErrorCode.REPLICA_NOT_AVAILABLE if offline else ErrorCode.NONE
    if leader == NO_LEADER:
        registered = partition.leader in image.brokers and version >= _FIRST_LISTENER_ERRORS
        error = ErrorCode.LISTENER_NOT_FOUND if registered else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(partition, image, listener),
    )


def leader_at(partition: PartitionImage, image: MetadataImage, listener: str) -> int:
    """Return the leader, or -1 if its broker is not registered with the listener of the request."""
    broker = image.brokers.get(partition.leader)
    found = broker is not None and any(endpoint.name == listener for endpoint in broker.endpoints)
    return partition.leader if found else NO_LEADER


def _is_available(broker_id: int, image: MetadataImage, listener: str) -> bool:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return False
    return any(endpoint.name == listener for endpoint in broker.endpoints)


def offline_replicas(partition: PartitionImage, image: MetadataImage, listener: str) -> list[int]:
    """Return the replicas on brokers that are not available at a listener, or in failed log directories."""
    return [
        replica
        for replica in partition.replicas
        if not _is_available(replica, image, listener)
        or not partition.is_online(replica, image.brokers[replica].log_dirs)
    ]
