"""Changes of an image by records: `replay`, with one method per record type, and the next image.

Leader, follower and a restarted node run the same code, so equal records give equal images. Replay makes no
decisions. A record that contradicts the image (a partition of an unknown topic, a wrong broker epoch) means
that the log is damaged: it raises `InvariantViolation`.

Copy on write: a table is copied, shallowly, at its first change, and then changed in place until `apply`.

Concurrency: one owner; after `apply` a delta is read-only and may be shared with listeners.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar, cast

from msgspec.structs import replace

from ottla.base.errors import invariant, violated
from ottla.metadata import records as rec
from ottla.metadata.image import (
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    TopicsImage,
)

K = TypeVar("K")
V = TypeVar("V")

_UNCHANGED_LEADER: Final = -2


class _Table(Generic[K, V]):
    """A table of the base image; the first edit replaces it by a shallow copy."""

    __slots__ = ("_copy", "current")

    def __init__(self, base: Mapping[K, V]) -> None:
        self.current = base
        self._copy: dict[K, V] | None = None

    def edit(self) -> dict[K, V]:
        if self._copy is None:
            self.current = self._copy = dict(self.current)
        return self._copy


def _endpoints(listed: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in listed)


def _features(listed: list[Any]) -> tuple[FeatureRange, ...]:
    return tuple(FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in listed)


def partition_from_record(record: rec.PartitionRecord) -> PartitionImage:
    """The partition that a PartitionRecord describes."""
    return PartitionImage(
        replicas=tuple(record.replicas),
        # Records before directories existed (version 0) leave them out: then none is assigned.
        directories=tuple(record.directories) or (DIRECTORY_UNASSIGNED,) * len(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=record.leader_recovery_state,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


def changed_partition(old: PartitionImage, change: rec.PartitionChangeRecord) -> PartitionImage:
    """The partition after a PartitionChangeRecord; absent fields keep their value."""
    leader, leader_epoch = old.leader, old.leader_epoch
    if change.leader != _UNCHANGED_LEADER:
        leader, leader_epoch = change.leader, old.leader_epoch + 1
    replicas = old.replicas if change.replicas is None else tuple(change.replicas)
    directories = old.directories if change.directories is None else tuple(change.directories)
    if len(directories) != len(replicas):
        known = dict(zip(old.replicas, old.directories, strict=False))
        directories = tuple(known.get(broker, DIRECTORY_UNASSIGNED) for broker in replicas)
    removing, adding = change.removing_replicas, change.adding_replicas
    elr, last_elr = change.eligible_leader_replicas, change.last_known_elr
    return PartitionImage(
        replicas=replicas,
        directories=directories,
        isr=old.isr if change.isr is None else tuple(change.isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=old.partition_epoch + 1,
        leader_recovery_state=(
            old.leader_recovery_state if change.leader_recovery_state == -1 else change.leader_recovery_state
        ),
        removing_replicas=old.removing_replicas if removing is None else tuple(removing),
        adding_replicas=old.adding_replicas if adding is None else tuple(adding),
        eligible_leader_replicas=old.eligible_leader_replicas if elr is None else tuple(elr),
        last_known_elr=old.last_known_elr if last_elr is None else tuple(last_elr),
    )


def _changed_keys(old: Mapping[K, V], new: Mapping[K, V]) -> set[K]:
    """Keys that were added, removed or have another value."""
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


class MetadataDelta:
    """Changes relative to `base`, and what they affect."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.changed_topics: set[uuid.UUID] = set()
        """Existing topics that were created, or have created or changed partitions."""
        self.deleted_topic_ids: set[uuid.UUID] = set()
        """Topics of `base` that were deleted; their names are in `base.topics.by_id`."""
        self.changed_configs: set[ConfigResource] = set()
        self.changed_brokers: set[int] = set()
        self.changed_features: set[str] = set()
        self.changed_acls: set[uuid.UUID] = set()
        self._applied = False
        self._partitions: dict[uuid.UUID, dict[int, PartitionImage]] = {}
        self._changed_partitions: dict[uuid.UUID, set[int]] = {}
        self._next_producer_id = base.next_producer_id
        self._features = _Table(base.features)
        self._brokers = _Table(base.brokers)
        self._controllers = _Table(base.controllers)
        self._by_name = _Table(base.topics.by_name)
        self._by_id = _Table(base.topics.by_id)
        self._configs = _Table(base.configs)
        self._acls = _Table(base.acls)
        self._scram = _Table(base.scram)
        self._quotas = _Table(base.quotas)
        self._tokens = _Table(base.tokens)

    @classmethod
    def between(cls, base: MetadataImage, image: MetadataImage) -> MetadataDelta:
        """The applied delta from one image to another, found by comparison: for a snapshot that replaces an image."""
        delta = cls(base)
        delta._applied = True
        for topic_id, topic in image.topics.by_id.items():
            before = base.topics.by_id.get(topic_id)
            old = {} if before is None else before.partitions
            changed = {index for index, each in topic.partitions.items() if old.get(index) != each}
            if changed or before is None:
                delta.changed_topics.add(topic_id)
                delta._changed_partitions[topic_id] = changed
        delta.deleted_topic_ids |= base.topics.by_id.keys() - image.topics.by_id.keys()
        delta.changed_configs |= _changed_keys(base.configs, image.configs)
        delta.changed_brokers |= _changed_keys(base.brokers, image.brokers)
        delta.changed_features |= _changed_keys(base.features, image.features)
        delta.changed_acls |= _changed_keys(base.acls, image.acls)
        return delta

    def changed_partitions(self, topic_id: uuid.UUID) -> frozenset[int]:
        """Indexes of the partitions of a topic that were created or changed."""
        return frozenset(self._changed_partitions.get(topic_id, ()))

    def replay(self, record: object) -> None:
        """Apply one committed record."""
        invariant(not self._applied, "a delta must not change after apply")
        handler = _REPLAY.get(type(record))
        if handler is None:
            violated(f"no replay for metadata record {type(record).__name__}")
        handler(self, record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image after all replayed records. The delta is read-only afterwards."""
        self._applied = True
        topics = self.base.topics
        if self._by_id.current is not topics.by_id:
            topics = TopicsImage(by_name=self._by_name.current, by_id=self._by_id.current)
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            features=self._features.current,
            brokers=self._brokers.current,
            controllers=self._controllers.current,
            topics=topics,
            configs=self._configs.current,
            next_producer_id=self._next_producer_id,
            acls=self._acls.current,
            scram=self._scram.current,
            quotas=self._quotas.current,
            tokens=self._tokens.current,
        )

    # Features and nodes

    def _feature_level(self, record: rec.FeatureLevelRecord) -> None:
        self.changed_features.add(record.name)
        if record.feature_level == 0:
            self._features.edit().pop(record.name, None)
        else:
            self._features.edit()[record.name] = record.feature_level

    def _register_broker(self, record: rec.RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self._set_broker(
            BrokerImage(
                broker_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_features(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                log_dirs=tuple(record.log_dirs),
                cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
            )
        )

    def _unregister_broker(self, record: rec.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self._brokers.edit()[record.broker_id]
        self.changed_brokers.add(record.broker_id)

    def _fence_broker(self, record: rec.FenceBrokerRecord) -> None:
        self._set_broker(replace(self._broker(record.id, record.epoch), fenced=True))

    def _unfence_broker(self, record: rec.UnfenceBrokerRecord) -> None:
        self._set_broker(replace(self._broker(record.id, record.epoch), fenced=False))

    def _change_broker(self, record: rec.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        changes: dict[str, Any] = {}
        if record.fenced:  # 1 fences, -1 unfences, 0 leaves it
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["log_dirs"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
        self._set_broker(replace(broker, **changes))

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers.current.get(broker_id)
        if broker is None:
            violated(f"metadata log names unregistered broker {broker_id}")
        invariant(
            broker.epoch == epoch, f"broker {broker_id} is at epoch {broker.epoch}, the log has {epoch}"
        )
        return broker

    def _set_broker(self, broker: BrokerImage) -> None:
        self._brokers.edit()[broker.broker_id] = broker
        self.changed_brokers.add(broker.broker_id)

    def _register_controller(self, record: rec.RegisterControllerRecord) -> None:
        self._controllers.edit()[record.controller_id] = ControllerImage(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    # Topics and partitions

    def _topic(self, record: rec.TopicRecord) -> None:
        invariant(record.name not in self._by_name.current, f"topic {record.name} is created twice")
        self._put_topic(
            TopicImage(record.name, record.topic_id, self._partitions.setdefault(record.topic_id, {}))
        )
        self._changed_partitions[record.topic_id] = set()
        self.changed_topics.add(record.topic_id)

    def _remove_topic(self, record: rec.RemoveTopicRecord) -> None:
        topic = self._by_id.current.get(record.topic_id)
        if topic is None:
            violated(f"metadata log removes unknown topic {record.topic_id}")
        del self._by_id.edit()[topic.topic_id]
        del self._by_name.edit()[topic.name]
        self._partitions.pop(topic.topic_id, None)
        self._changed_partitions.pop(topic.topic_id, None)
        self.changed_topics.discard(topic.topic_id)
        if topic.topic_id in self.base.topics.by_id:
            self.deleted_topic_ids.add(topic.topic_id)
        resource = (ResourceType.TOPIC.value, topic.name)
        if resource in self._configs.current:
            del self._configs.edit()[resource]
            self.changed_configs.add(resource)

    def _partition(self, record: rec.PartitionRecord) -> None:
        self._set_partition(record.topic_id, record.partition_id, partition_from_record(record))

    def _change_partition(self, record: rec.PartitionChangeRecord) -> None:
        topic = self._by_id.current.get(record.topic_id)
        old = None if topic is None else topic.partitions.get(record.partition_id)
        if old is None:
            violated(f"metadata log changes unknown partition {record.topic_id}:{record.partition_id}")
        self._set_partition(record.topic_id, record.partition_id, changed_partition(old, record))

    def _clear_elr(self, record: rec.ClearElrRecord) -> None:
        """Clear the eligible leader replicas of one topic, or of all topics if the name is empty.

        Partitions without a leader keep them: nothing was committed without those replicas, and no other may lead.
        As any change of a partition, it raises the partition epoch.
        """
        named = record.topic_name
        if named and named not in self._by_name.current:
            violated(f"metadata log clears eligible leaders of unknown topic {named}")
        topics = [self._by_name.current[named]] if named else list(self._by_name.current.values())
        for topic in topics:
            for index, partition in list(topic.partitions.items()):
                has_any = partition.eligible_leader_replicas or partition.last_known_elr
                if has_any and partition.leader != NO_LEADER:
                    cleared = replace(
                        partition,
                        eligible_leader_replicas=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )
                    self._set_partition(topic.topic_id, index, cleared)

    def _set_partition(self, topic_id: uuid.UUID, index: int, partition: PartitionImage) -> None:
        topic = self._by_id.current.get(topic_id)
        if topic is None:
            violated(f"metadata log has a partition of unknown topic {topic_id}")
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            partitions = dict(topic.partitions)
            self._own_partitions(topic, partitions)
        in_order = index in partitions or not partitions or index > next(reversed(partitions))
        partitions[index] = partition
        if not in_order:  # records may be in any order; clients need partitions by ascending index
            self._own_partitions(topic, dict(sorted(partitions.items())))
        self._changed_partitions.setdefault(topic_id, set()).add(index)
        self.changed_topics.add(topic_id)

    def _own_partitions(self, topic: TopicImage, partitions: dict[int, PartitionImage]) -> None:
        self._partitions[topic.topic_id] = partitions
        self._put_topic(TopicImage(topic.name, topic.topic_id, partitions))

    def _put_topic(self, topic: TopicImage) -> None:
        self._by_id.edit()[topic.topic_id] = topic
        self._by_name.edit()[topic.name] = topic

    # Settings, producer ids and security

    def _config(self, record: rec.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = dict(self._configs.current.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._configs.edit()[resource] = values
        else:
            self._configs.edit().pop(resource, None)
        self.changed_configs.add(resource)

    def _producer_ids(self, record: rec.ProducerIdsRecord) -> None:
        invariant(
            record.next_producer_id >= self._next_producer_id,
            f"the next producer id decreases from {self._next_producer_id} to {record.next_producer_id}",
        )
        self._next_producer_id = record.next_producer_id

    def _access_control_entry(self, record: rec.AccessControlEntryRecord) -> None:
        self._acls.edit()[record.id] = record
        self.changed_acls.add(record.id)

    def _remove_access_control_entry(self, record: rec.RemoveAccessControlEntryRecord) -> None:
        self._acls.edit().pop(record.id, None)
        self.changed_acls.add(record.id)

    def _scram_credential(self, record: rec.UserScramCredentialRecord) -> None:
        self._scram.edit()[record.name, record.mechanism] = record

    def _remove_scram_credential(self, record: rec.RemoveUserScramCredentialRecord) -> None:
        self._scram.edit().pop((record.name, record.mechanism), None)

    def _client_quota(self, record: rec.ClientQuotaRecord) -> None:
        entity = tuple(
            sorted(((e.entity_type, e.entity_name) for e in record.entity), key=lambda pair: pair[0])
        )
        values = dict(self._quotas.current.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas.edit()[entity] = values
        else:
            self._quotas.edit().pop(entity, None)

    def _delegation_token(self, record: rec.DelegationTokenRecord) -> None:
        self._tokens.edit()[record.token_id] = record

    def _remove_delegation_token(self, record: rec.RemoveDelegationTokenRecord) -> None:
        self._tokens.edit().pop(record.token_id, None)

    def _nothing(self, record: object) -> None:
        """A record that does not affect the image."""


_REPLAY: Final = cast(
    Mapping[type, Callable[[MetadataDelta, object], None]],
    {
        rec.AccessControlEntryRecord: MetadataDelta._access_control_entry,
        rec.BrokerRegistrationChangeRecord: MetadataDelta._change_broker,
        rec.ClearElrRecord: MetadataDelta._clear_elr,
        rec.ClientQuotaRecord: MetadataDelta._client_quota,
        rec.ConfigRecord: MetadataDelta._config,
        rec.DelegationTokenRecord: MetadataDelta._delegation_token,
        rec.FeatureLevelRecord: MetadataDelta._feature_level,
        rec.FenceBrokerRecord: MetadataDelta._fence_broker,
        rec.NoOpRecord: MetadataDelta._nothing,
        rec.PartitionChangeRecord: MetadataDelta._change_partition,
        rec.PartitionRecord: MetadataDelta._partition,
        rec.ProducerIdsRecord: MetadataDelta._producer_ids,
        rec.RegisterBrokerRecord: MetadataDelta._register_broker,
        rec.RegisterControllerRecord: MetadataDelta._register_controller,
        rec.RemoveAccessControlEntryRecord: MetadataDelta._remove_access_control_entry,
        rec.RemoveDelegationTokenRecord: MetadataDelta._remove_delegation_token,
        rec.RemoveTopicRecord: MetadataDelta._remove_topic,
        rec.RemoveUserScramCredentialRecord: MetadataDelta._remove_scram_credential,
        rec.TopicRecord: MetadataDelta._topic,
        rec.UnfenceBrokerRecord: MetadataDelta._unfence_broker,
        rec.UnregisterBrokerRecord: MetadataDelta._unregister_broker,
        rec.UserScramCredentialRecord: MetadataDelta._scram_credential,
        rec.ZkMigrationStateRecord: MetadataDelta._nothing,
    },
)
