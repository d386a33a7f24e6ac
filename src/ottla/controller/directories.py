"""Decisions about log directories: the directory of each replica, and directories that fail.

If a broker has one directory, the metadata names it from the start. If it has several, the broker chooses one and
reports it (`decide_assign`). A replica whose directory is missing at a later start is then offline; it is not
created again, empty, in another directory. Replicas in a directory that fails lose leadership
(`decide_failed`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ottla.controller.decision import Decision
from ottla.controller.port import DirectoryAssignments
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.schema import Message


def decide_assign_replicas(
    image: MetadataImage, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Record the directories that a broker reports for its replicas."""
    assignments = {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    records = decide_assign(image, request.broker_id, assignments).records
    return Decision(records, AssignReplicasToDirsResponse())


def decide_assign(image: MetadataImage, broker_id: int, assignments: DirectoryAssignments) -> Decision[None]:
    """Record the directories of replicas; deleted partitions and known directories are skipped."""
    records: list[Message] = []
    for (topic_id, index), directory_id in assignments.items():
        topic = image.topics.by_id.get(topic_id)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None or broker_id not in partition.replicas:
            continue
        if partition.directory_of(broker_id) != directory_id:
            directories = [
                directory_id if replica == broker_id else partition.directory_of(replica)
                for replica in partition.replicas
            ]
            records.append(
                PartitionChangeRecord(topic_id=topic_id, partition_id=index, directories=directories)
            )
    return Decision(records, None)


def decide_failed(
    image: MetadataImage, broker_id: int, broker_epoch: int, online: Sequence[uuid.UUID]
) -> Decision[None]:
    """Record that only `online` directories of a broker work; it loses the leadership of all other replicas."""
    records: list[Message] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, log_dirs=list(online))
    ]
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            if partition.leader == broker_id and not partition.is_online(broker_id, online):
                records.append(
                    PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, leader=NO_LEADER)
                )
    return Decision(records, None)
