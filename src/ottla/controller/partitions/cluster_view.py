"""The state on which decisions about partitions are made: an image, its index and the effective topic settings.

A view belongs to one decision. Settings that a topic does not override are computed once for all topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.key import Value, parse
from ottla.config.keys import TOPIC_KEYS
from ottla.controller.partitions.partition_change import Election, PartitionChange
from ottla.controller.partitions.replica_index import PartitionKey, ReplicaIndex
from ottla.controller.settings.config_rules import ConfigRules
from ottla.metadata.image import (
    DIRECTORY_UNASSIGNED,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.metadata.records import PartitionChangeRecord
from ottla.wire.schema import Message

_MIN_INSYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"
_FLUSH: Final = "flush.messages"
_NO_BROKERS: Final[frozenset[int]] = frozenset()


class ClusterView:
    """An image with its index, and the settings of topics."""

    def __init__(self, image: MetadataImage, index: ReplicaIndex, rules: ConfigRules) -> None:
        self.image = image
        self.index = index
        self._rules = rules
        self._elr_enabled = image.elr_enabled
        self._defaults: Mapping[str, Value] | None = None
        self._rules_of: tuple[TopicImage | None, int, bool] = (None, 0, False)

    # Settings

    def setting(self, topic: str, name: str) -> Value:
        """The effective value of a topic setting."""
        text = self.image.config(ResourceType.TOPIC, topic).get(name)
        if text is not None:
            return parse(TOPIC_KEYS[name], text)
        if self._defaults is None:
            self._defaults = self._rules.topic_defaults(self.image)
        return self._defaults[name]

    def min_insync_replicas(self, topic: TopicImage) -> int:
        """The effective min.insync.replicas: at most the replication factor."""
        value = self.setting(topic.name, _MIN_INSYNC)
        return min(int(str(value)), len(topic.partitions[0].replicas) if 0 in topic.partitions else 1)

    def allows_unclean_election(self, topic: TopicImage) -> bool:
        """Whether a replica that is not in sync may lead if there is no other."""
        return self.setting(topic.name, _UNCLEAN) is True

    def is_synced(self, topic: TopicImage, broker_id: int) -> bool:
        """Whether a broker syncs every record of a topic before it counts as replicated (flush.messages=1)."""
        text = self.image.config(ResourceType.TOPIC, topic.name).get(_FLUSH)
        if text is not None:
            return parse(TOPIC_KEYS[_FLUSH], text) == 1
        return self._rules.topic_defaults(self.image, broker_id)[_FLUSH] == 1

    # Brokers

    def check_epoch(self, broker_id: int, broker_epoch: int) -> BrokerImage:
        """The registration of the broker that sends a request; refuses another epoch than the registered one."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
        if broker.epoch != broker_epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} is at epoch {broker.epoch}, the request has {broker_epoch}",
            )
        return broker

    def default_directory(self, broker_id: int) -> uuid.UUID:
        """The directory of a new replica of a broker."""
        broker = self.image.brokers.get(broker_id)
        return DIRECTORY_UNASSIGNED if broker is None else broker.default_directory()

    # Partitions

    def partition(self, key: PartitionKey) -> tuple[TopicImage, PartitionImage]:
        """A partition of the index and its topic."""
        topic = self.image.topics.by_id[key[0]]
        return topic, topic.partitions[key[1]]

    def change(
        self,
        topic: TopicImage,
        partition: PartitionImage,
        *,
        returning: Collection[int] = _NO_BROKERS,
        leaving: Collection[int] = _NO_BROKERS,
        offline: Collection[uuid.UUID] = (),
    ) -> PartitionChange:
        """A change of a partition, with an unclean election if the topic allows it.

        `returning` brokers may lead although they are fenced, `leaving` brokers may not. Directories that are
        `offline` do not count as registered.
        """
        if self._rules_of[0] is not topic:  # partitions of one topic usually follow each other
            is_unclean = self.allows_unclean_election(topic)
            self._rules_of = (topic, self.min_insync_replicas(topic), is_unclean)
        _, min_insync_replicas, is_unclean = self._rules_of
        change = PartitionChange(
            partition,
            self._acceptable(partition, returning, leaving, offline),
            min_insync_replicas=min_insync_replicas,
            elr_enabled=self._elr_enabled,
        )
        if is_unclean:
            change.election = Election.UNCLEAN
        return change

    def _acceptable(
        self,
        partition: PartitionImage,
        returning: Collection[int],
        leaving: Collection[int],
        offline: Collection[uuid.UUID],
    ) -> Callable[[int], bool]:
        def is_acceptable(broker_id: int) -> bool:
            broker = self.image.brokers.get(broker_id)
            if broker is None or broker_id in leaving or not (broker.active or broker_id in returning):
                return False
            online = [each for each in broker.log_dirs if each not in offline] if offline else broker.log_dirs
            return partition.is_online(broker_id, online)

        return is_acceptable

    def build(self, key: PartitionKey, change: PartitionChange) -> PartitionChangeRecord | None:
        """The record of a change; None if nothing changes."""
        record = change.build(self.default_directory)
        if record is not None:
            record.topic_id, record.partition_id = key
        return record

    # Changes of many partitions

    def remove_brokers(self, brokers: Collection[int]) -> list[Message]:
        """Remove brokers from every ISR and leadership, in one change per partition.

        Because one change removes all of them, replicas that fail at the same moment remain eligible together.
        """
        return self._remove(self.index.replicas_of(brokers), frozenset(brokers))

    def remove_replicas(
        self, broker_id: int, keys: Iterable[PartitionKey], offline: Collection[uuid.UUID] = ()
    ) -> list[Message]:
        """Remove a broker from the ISR and leadership of some partitions."""
        return self._remove(keys, frozenset((broker_id,)), offline=offline)

    def forget_broker(self, broker_id: int, *, keep_eligible: Callable[[TopicImage], bool]) -> list[Message]:
        """Remove a broker from every ISR and leadership, and from the ELR of topics where it may have lost records."""
        return self._remove(
            self.index.replicas_of((broker_id,)), frozenset((broker_id,)), keep_eligible=keep_eligible
        )

    def _remove(
        self,
        keys: Iterable[PartitionKey],
        leaving: frozenset[int],
        *,
        keep_eligible: Callable[[TopicImage], bool] = lambda _: True,
        offline: Collection[uuid.UUID] = (),
    ) -> list[Message]:
        records: list[Message] = []
        for key in keys:
            topic, partition = self.partition(key)
            in_sync = not leaving.isdisjoint(partition.isr) or partition.leader in leaving
            is_lost = not keep_eligible(topic)
            if not in_sync and (not is_lost or leaving.isdisjoint(partition.eligible_leader_replicas)):
                continue  # an eligible replica stays so; an election here could be an unclean one
            change = self.change(topic, partition, leaving=leaving, offline=offline)
            change.isr = tuple(one for one in partition.isr if one not in leaving)
            if is_lost:
                change.unclean_replicas = leaving
            record = self.build(key, change)
            if record is not None:
                records.append(record)
        return records

    def elect_returned(self, broker_id: int, offline: Collection[uuid.UUID] = ()) -> list[Message]:
        """Elect leaders for partitions without one after a broker is unfenced.

        The broker may lead those that it is eligible for. Where unclean elections have been enabled meanwhile, any
        active replica may lead, as in the periodic check.
        """
        records: list[Message] = []
        for key in self.index.leaderless:
            topic, partition = self.partition(key)
            if broker_id in partition.replicas or self.allows_unclean_election(topic):
                change = self.change(topic, partition, returning=(broker_id,), offline=offline)
                record = self.build(key, change)
                if record is not None:
                    records.append(record)
        return records
