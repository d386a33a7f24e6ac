"""DescribeProducers (key 61), version 0: the producers a partition remembers, for finding hanging transactions."""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.registry import Call, handles
from ottla.metadata.topic_names import check_topic_name
from ottla.replication.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, versions=(0, 0))
def describe_producers(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_partition(topic.name, index, call) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _partition(topic: str, index: int, call: Call) -> PartitionResponse:
    try:
        check_topic_name(topic)
        if topic not in call.broker.image.topics.by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        partition = call.broker.replicas.get(topic, index)
        partition.check_leader()
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(partition_index=index, active_producers=_producers(partition))


def _producers(partition: Partition) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        for producer_id, entry in partition.log.producers.items()
    ]
