"""Decisions about the log directory of each replica: AssignReplicasToDirs.

If a broker has one directory, the metadata names it from the start. If it has several, the broker chooses one and
reports it. A replica whose directory is missing at a later start is then offline; it is not created again, empty, in
another directory. Directories that fail are reported by heartbeats (`brokers.heartbeats`).

A replica that moves away from a directory which is not registered any more starts with an empty log. It leaves the ISR
and the ELR, so that it cannot lead before it has caught up.
"""

from __future__ import annotations

import uuid

from ottla.base.errors import ErrorCode
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.metadata.image import RESERVED_DIRECTORIES, BrokerImage, TopicImage
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from ottla.wire.schema import Message


def decide_assign(
    view: ClusterView, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Record the directories that a broker reports for its replicas."""
    broker = view.check_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AssignReplicasToDirsResponse(directories=[])
    for directory in request.directories:
        topics = []
        for topic_data in directory.topics:
            topic = view.image.topics.by_id.get(topic_data.topic_id)
            partitions = []
            for each in topic_data.partitions:
                index = each.partition_index
                code = _assign(view, broker, topic, index, directory.id, records)
                partitions.append(
                    AssignReplicasToDirsResponsePartitionData(partition_index=index, error_code=code)
                )
            topics.append(
                AssignReplicasToDirsResponseTopicData(topic_id=topic_data.topic_id, partitions=partitions)
            )
        response.directories.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    return SplittableDecision(records, response)


def _assign(
    view: ClusterView,
    broker: BrokerImage,
    topic: TopicImage | None,
    index: int,
    directory_id: uuid.UUID,
    records: list[Message],
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker_id = broker.broker_id
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    known = partition.directory_of(broker_id)
    if known == directory_id:
        return ErrorCode.NONE
    change = view.change(topic, partition)
    change.directories[broker_id] = directory_id
    is_lost = known not in RESERVED_DIRECTORIES and known not in broker.log_dirs
    if is_lost or directory_id not in broker.log_dirs:
        change = view.change(topic, partition, leaving=(broker_id,))
        change.directories[broker_id] = directory_id
        change.isr = tuple(one for one in partition.isr if one != broker_id)
        change.unclean_replicas = frozenset((broker_id,)) if is_lost else frozenset()
    record = view.build((topic.topic_id, index), change)
    if record is not None:
        records.append(record)
    return ErrorCode.NONE
