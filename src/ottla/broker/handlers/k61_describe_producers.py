"""DescribeProducers (key 61), version 0: the producer state of partitions, to find hanging transactions."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.access import check
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.repetitions import limited
from ottla.broker.requirements import resources
from ottla.metadata.topic_names import check_topic_name
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(
    ApiKey.DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    versions=(0, 0),
    requires=resources((Operation.READ, ResourceType.TOPIC)),
)
@dataclass(frozen=True)
class DescribeProducers:
    """Describes the producer state of partitions of this broker."""

    authorization: Authorization
    metadata: MetadataCache
    replicas: Replicas

    def handle(self, request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
        wanted = [
            (position, topic.name, index)
            for position, topic in enumerate(request.topics)
            for index in topic.partition_indexes
        ]
        topics = [TopicResponse(name=topic.name, partitions=[]) for topic in request.topics]
        for position, name, index in limited(wanted, key=lambda each: each[1:]):
            topics[position].partitions.append(self._partition(name, index, call))
        return DescribeProducersResponse(topics=topics)

    def _partition(self, topic: str, index: int, call: Call) -> PartitionResponse:
        try:
            check_topic_name(topic)
            check(self.authorization, call, Operation.READ, ResourceType.TOPIC, topic)
            if topic not in self.metadata.image.topics.by_name:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist")
            partition = self.replicas.get(topic, index)
            partition.check_replica_here()
        except ApiError as error:
            return PartitionResponse(
                partition_index=index, error_code=error.code, error_message=error.message
            )
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
