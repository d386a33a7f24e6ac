"""Decisions about log directories: which of them holds a replica, and what happens when one fails.

A broker with one directory has no choice, so the metadata names it from the start. With several the broker
chooses and reports (`decide_assign`), so that a directory that is missing at a later start is missed: a
replica that lies there is offline then, and not begun anew, empty, somewhere else. Replicas in a directory
that fails lose their leadership (`decide_failed`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ottla.controller.decision import Decision
from ottla.controller.port import DirectoryAssignments
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from ottla.wire.schema import Message


def decide_assign(image: MetadataImage, broker_id: int, assignments: DirectoryAssignments) -> Decision[None]:
    """Note where the replicas of a broker lie. What is gone or known already is left out."""
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
    """Only `online` directories of a broker are left: it leads nothing that lies in another."""
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
