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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.rng import Random
from ottla.broker.access import NOT_REQUESTED, NameFilter, allows_cluster, cluster_operations, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.internal_topics import creation
from ottla.broker.dependencies import MetadataCache
from ottla.broker.forwarding.forwarder import Forwarder
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from ottla.security.resources import Operation, ResourceType
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
_CACHED_TOPICS_MAX: Final = 100
"""Topics in a request whose response is cached: the cache must stay small whatever clients request."""
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


@handles(
    ApiKey.METADATA,
    MetadataRequest,
    versions=(0, 13),
    requires=resources(
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.CLUSTER),
    ),
)
@dataclass(frozen=True)
class Metadata:
    """Describes the newest image of this node."""

    authorization: Authorization
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
        key: tuple[object, ...] = (
            version,
            call.origin.listener.name,
            _key(wanted),
            *_operations_requested(request),
        )
        if self.authorization.enabled:
            key = (*key, call.origin.principal, call.origin.ip, self.authorization.epoch)
        cached = self._cache.of(self.metadata.image)
        body = cached.get(key)
        if body is not None:
            return body
        topics = self._all(request, call) if wanted is None else await self._some(wanted, request, call)
        response = self._response(request, call, topics)
        if (
            all(topic.error_code == 0 for topic in topics)
            and cached is self._cache.of(self.metadata.image)
            and (wanted is None or len(wanted) <= _CACHED_TOPICS_MAX)
        ):
            body = cached[key] = codec.encode(response, version)
            return body
        return response

    def _response(
        self, request: MetadataRequest, call: Call, topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        brokers = []
        for _, broker in sorted(self.metadata.image.brokers.items()):
            for endpoint in () if broker.fenced else broker.endpoints:
                if endpoint.name == call.origin.listener.name:
                    brokers.append(
                        MetadataResponseBroker(
                            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                        )
                    )
        requested = request.include_cluster_authorized_operations
        operations = cluster_operations(self.authorization, call) if requested else NOT_REQUESTED
        return MetadataResponse(
            brokers=brokers,
            cluster_id=self.cluster_id,
            controller_id=self._random_broker(),
            topics=topics,
            cluster_authorized_operations=operations,
        )

    def _random_broker(self) -> int:
        live = [broker.broker_id for broker in self.metadata.image.brokers.values() if not broker.fenced]
        return live[self.rng.randrange(len(live))] if live else _NO_BROKER

    def _all(self, request: MetadataRequest, call: Call) -> list[MetadataResponseTopic]:
        image = self.metadata.image
        topics: Iterable[TopicImage] = image.topics.by_name.values()
        visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC, quiet=True)
        if visible is not None:
            topics = [topic for topic in topics if visible(topic.name)]
        return self._with_operations([_topic(topic, image, call) for topic in topics], request, call)

    async def _some(
        self, wanted: Sequence[MetadataRequestTopic], request: MetadataRequest, call: Call
    ) -> list[MetadataResponseTopic]:
        visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC)
        if any(topic.topic_id != ZERO_UUID for topic in wanted):
            ids = dict.fromkeys(topic.topic_id for topic in wanted if topic.topic_id != ZERO_UUID)
            return self._by_id(list(ids), visible, request, call)
        names = list(dict.fromkeys(topic.name for topic in wanted if topic.name is not None))
        hidden: list[MetadataResponseTopic] = []
        if visible is not None:
            hidden = [_denied(name, is_internal=False) for name in names if not visible(name)]
            names = [name for name in names if visible(name)]
        by_name = self.metadata.image.topics.by_name
        missing = [name for name in names if name not in by_name]
        creates = request.allow_auto_topic_creation or call.api_version < 4
        if missing and creates and self.settings.bool("auto.create.topics.enable"):
            denied = self._not_creatable(missing, call)
            hidden = [_denied(name, is_internal=name in INTERNAL_TOPICS) for name in denied] + hidden
            names = [name for name in names if name not in denied]
            await self._create([n for n in missing if n not in denied and _name_error(n) is None])
        image = self.metadata.image
        by_name = image.topics.by_name
        found = [_topic(by_name[name], image, call) for name in names if name in by_name]
        found += [_missing(name) for name in names if name not in by_name]
        return self._with_operations(found, request, call) + hidden

    def _by_id(
        self, ids: list[Uuid], visible: NameFilter, request: MetadataRequest, call: Call
    ) -> list[MetadataResponseTopic]:
        image = self.metadata.image
        by_id = image.topics.by_id
        if visible is None:
            found = [_topic(by_id[each], image, call) if each in by_id else _unknown(each) for each in ids]
            return self._with_operations(found, request, call)
        known = [by_id[each] for each in ids if each in by_id]
        found = [_topic(topic, image, call) for topic in known if visible(topic.name)]
        # Ids are not confidential: only the name is left out.
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied = [
            MetadataResponseTopic(error_code=code, name=None, topic_id=topic.topic_id)
            for topic in known
            if not visible(topic.name)
        ]
        unknown = [_unknown(each) for each in ids if each not in by_id]
        return unknown + self._with_operations(found, request, call) + denied

    def _with_operations(
        self, topics: list[MetadataResponseTopic], request: MetadataRequest, call: Call
    ) -> list[MetadataResponseTopic]:
        if request.include_topic_authorized_operations:
            for topic in topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = self.authorization.operations(
                        call.origin, ResourceType.TOPIC, topic.name
                    )
        return topics

    def _not_creatable(self, names: list[str], call: Call) -> frozenset[str]:
        """The topics that the client may not create."""
        if allows_cluster(self.authorization, call, Operation.CREATE, quiet=True):
            return frozenset()
        allowed = name_filter(self.authorization, call, Operation.CREATE, ResourceType.TOPIC)
        return frozenset(name for name in names if allowed is not None and not allowed(name))

    async def _create(self, names: list[str]) -> None:
        """Create the topics. As in Kafka, a topic that cannot be created stays unknown."""
        if names:
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


def _missing(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=_name_error(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _denied(name: str, *, is_internal: bool) -> MetadataResponseTopic:
    """The error of a topic, which is the same whether it exists or not."""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=is_internal
    )


def _unknown(topic_id: Uuid) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)


def _topic(topic: TopicImage, image: MetadataImage, call: Call) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, one, image, call) for index, one in topic.partitions.items()],
    )


def _partition(
    index: int, partition: PartitionImage, image: MetadataImage, call: Call
) -> MetadataResponsePartition:
    listener, version = call.origin.listener.name, call.api_version
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
