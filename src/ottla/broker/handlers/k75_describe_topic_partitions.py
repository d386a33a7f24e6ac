"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, page by page (KIP-966).

A page holds at most `response_partition_limit` partitions (one at least, and not more than the broker's
`max.request.partition.size.limit`); `next_cursor` says where the next begins. No topics means all. A cursor
before partition 0, or at a topic that was not asked for, makes every topic invalid; so does, in Kafka's
strange words (-1), an empty name.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.authorized_operations import TOPIC_OPERATIONS
from ottla.broker.handlers.k03_metadata import offline_replicas
from ottla.broker.registry import Call, handles
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
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


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest, versions=(0, 0))
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    image = call.broker.image
    names = sorted({topic.name for topic in request.topics} or image.topics.by_name)
    cursor = request.cursor or Cursor()
    remaining = [name for name in names if name >= cursor.topic_name]
    astray = request.cursor is not None and bool(request.topics) and cursor.topic_name not in names
    if astray or cursor.partition_index < 0:
        return _refused(request, ErrorCode.INVALID_REQUEST)
    if "" in remaining:
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    left = max(1, min(request.response_partition_limit, call.broker.settings.int(_LIMIT)))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in remaining:
        start = cursor.partition_index if name == cursor.topic_name else 0
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        indexes = [index for index in topic.partitions if index >= start]
        if left:
            response.topics.append(_topic(topic, indexes[:left], image))
        if len(indexes) > left:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=indexes[left]
            )
            break
        left -= len(indexes)
    return response


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
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    topic: TopicImage, indexes: list[int], image: MetadataImage
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], image) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionImage, image: MetadataImage
) -> DescribeTopicPartitionsResponsePartition:
    leaderless = partition.leader == NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(partition, image),
    )
