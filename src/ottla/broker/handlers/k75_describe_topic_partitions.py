"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, page by page (KIP-966).

A page contains at most `response_partition_limit` partitions (at least one, and not more than the setting
`max.request.partition.size.limit`); the next page starts at `next_cursor`. No topics means all. A cursor before
partition 0, or at a topic that is not in the request, gives INVALID_REQUEST for every topic; an empty name
without a cursor gives UNKNOWN_SERVER_ERROR, as in Kafka. A partition without a leader is not an error here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k03_metadata import leader_at, offline_replicas
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.config.dynamic import DynamicConfig
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_LIMIT = "max.request.partition.size.limit"


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsRequest,
    versions=(0, 0),
    requires=resources((Operation.DESCRIBE, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class DescribeTopicPartitions:
    """Describes topics of the newest image, page by page."""

    authorization: Authorization
    settings: DynamicConfig
    metadata: MetadataCache

    def handle(self, request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
        image = self.metadata.image
        names = sorted({topic.name for topic in request.topics} or image.topics.by_name)
        cursor = request.cursor or Cursor()
        remaining = [name for name in names if name >= cursor.topic_name]
        unrelated = request.cursor is not None and bool(request.topics) and cursor.topic_name not in names
        if unrelated or cursor.partition_index < 0:
            return _refused(request, ErrorCode.INVALID_REQUEST)
        remaining, denied = self._visible(remaining, request, call)
        if "" in remaining and request.cursor is None:
            return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        left = max(1, min(request.response_partition_limit, self.settings.int(_LIMIT)))
        response = DescribeTopicPartitionsResponse(topics=[])
        for name in remaining:
            if not left:
                response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name)
                break
            start = cursor.partition_index if name == cursor.topic_name else 0
            topic = image.topics.by_name.get(name)
            if topic is None:
                response.topics.append(_missing(name))
                continue
            indexes = [index for index in topic.partitions if index >= start]
            response.topics.append(_topic(topic, indexes[:left], image, call.origin.listener.name))
            if len(indexes) > left:
                response.next_cursor = DescribeTopicPartitionsResponseCursor(
                    topic_name=name, partition_index=indexes[left]
                )
                break
            left -= len(indexes)
        for described in response.topics:
            described.topic_authorized_operations = self.authorization.operations(
                call.origin, ResourceType.TOPIC, described.name or ""
            )
        response.topics += denied
        return response

    def _visible(
        self, names: list[str], request: DescribeTopicPartitionsRequest, call: Call
    ) -> tuple[list[str], list[DescribeTopicPartitionsResponseTopic]]:
        """The topics that the client may describe, and errors for the others that it has named."""
        every = not request.topics
        visible = name_filter(self.authorization, call, Operation.DESCRIBE, ResourceType.TOPIC, quiet=every)
        if visible is None:
            return names, []
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        hidden = [] if every else [name for name in names if not visible(name)]
        return [name for name in names if visible(name)], [
            DescribeTopicPartitionsResponseTopic(error_code=code, name=name) for name in hidden
        ]


def _refused(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """The same error for every topic of a request."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics
        ]
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except ApiError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
    )


def _topic(
    topic: TopicImage, indexes: list[int], image: MetadataImage, listener: str
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], image, listener) for index in indexes],
    )


def _partition(
    index: int, partition: PartitionImage, image: MetadataImage, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=leader_at(partition, image, listener),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(partition, image, listener),
    )
