"""An image as records, for snapshots, and the digest of an image.

Replaying `image_records(image)` on an empty image gives an equal image. Features are first, because they determine
the versions of all other records; a topic is before its partitions; topics are in the order of their creation,
which placement needs. Everything else is sorted, so that equal images give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from ottla.metadata.image import (
    METADATA_VERSION,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.record_codec import encode_record
from ottla.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from ottla.wire.schema import Message


def image_records(image: MetadataImage) -> Iterator[Message]:
    """The records that build the image from an empty one."""
    yield from _features(image)
    for broker in sorted(image.brokers.values(), key=lambda b: b.broker_id):
        yield _broker(broker)
    for controller in sorted(image.controllers.values(), key=lambda c: c.controller_id):
        yield _controller(controller)
    for topic in image.topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic, index, partition)
    for (resource_type, resource_name), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security(image)


def image_values(image: MetadataImage) -> Iterator[bytes]:
    """The same records, encoded."""
    return (encode_record(record, image.metadata_version) for record in image_records(image))


def digest(image: MetadataImage) -> str:
    """A hash of the image and its offset; equal on all nodes with equal images."""
    return digest_of(image.offset, image_values(image))


def digest_of(offset: int, values: Iterable[bytes]) -> str:
    hashed = hashlib.sha256(str(offset).encode())
    for value in values:
        hashed.update(len(value).to_bytes(4, "big"))
        hashed.update(value)
    return hashed.hexdigest()


def _features(image: MetadataImage) -> Iterator[Message]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    return (FeatureLevelRecord(name=name, feature_level=image.features[name]) for name in names)


def _broker(broker: BrokerImage) -> RegisterBrokerRecord:
    cordoned = broker.cordoned_log_dirs
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            BrokerFeature(
                name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version
            )
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in controller.endpoints
        ],
        features=[
            ControllerFeature(
                name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version
            )
            for f in controller.features
        ],
    )


def partition_record(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionRecord:
    """A partition as one record."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _security(image: MetadataImage) -> Iterator[Message]:
    yield from (image.acls[key] for key in sorted(image.acls))
    yield from (image.scram[key] for key in sorted(image.scram))
    yield from (image.tokens[key] for key in sorted(image.tokens))
    for entity, values in sorted(image.quotas.items(), key=lambda item: [(k, v or "") for k, v in item[0]]):
        for key, value in sorted(values.items()):
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield ClientQuotaRecord(entity=parts, key=key, value=value)
