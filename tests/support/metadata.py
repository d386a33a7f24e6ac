"""Images for tests, built the way a node builds them: by replaying records."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.wire.schema import Message

TOPIC = 2
BROKER = 4


def replayed(records: Iterable[Message], base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    """The image after some more records."""
    delta = MetadataDelta(base)
    count = 0
    for record in records:
        delta.replay(record)
        count += 1
    return delta.apply(base.offset + count, base.epoch)


def broker_record(
    broker_id: int, rack: str | None = None, *, fenced: bool = False, epoch: int = 5, dirs: int = 1
) -> RegisterBrokerRecord:
    log_dirs = [uuid.UUID(int=1000 * broker_id + number + 10) for number in range(dirs)]
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=uuid.UUID(int=broker_id + 1),
        broker_epoch=epoch,
        rack=rack,
        fenced=fenced,
        log_dirs=log_dirs,
    )


def topic_records(
    name: str, assignments: Sequence[Sequence[int]] = ((1,),), configs: Mapping[str, str] | None = None
) -> list[Message]:
    topic_id = topic_id_of(name)
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    for key, value in (configs or {}).items():
        records.append(ConfigRecord(resource_type=TOPIC, resource_name=name, name=key, value=value))
    for index, replicas in enumerate(assignments):
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[uuid.UUID(int=1000 * replica + 10) for replica in replicas],
            )
        )
    return records


def topic_id_of(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, name)


def features(**levels: int) -> list[Message]:
    known = {"metadata.version": 30, "eligible.leader.replicas.version": 1, **levels}
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in known.items()]


def one_node(*topics: str, **levels: int) -> MetadataImage:
    """Broker 1, ready, with some topics of one partition."""
    records = [*features(**levels), broker_record(1)]
    for name in topics:
        records += topic_records(name)
    return replayed(records)
