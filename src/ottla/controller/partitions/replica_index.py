"""An index of the partitions of an image: by replica, without a leader, without their preferred leader.

The controller changes many partitions when one broker fails. The index finds them without a scan of all topics. It
follows the image by the changes of each delta, so the cost of an update is the number of changed partitions.

Invariant: after `load(image)` and after each `update(delta, image)` the index describes that image.
Concurrency: the event loop only.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage

PartitionKey = tuple[uuid.UUID, int]
"""Topic id and partition index."""


class ReplicaIndex:
    """Sets of partitions of one image. The order in each set is the order in which partitions were added."""

    def __init__(self) -> None:
        self._by_broker: dict[int, dict[PartitionKey, None]] = {}
        self._leaderless: dict[PartitionKey, None] = {}
        self._imbalanced: dict[PartitionKey, None] = {}
        self._reassigning: dict[PartitionKey, None] = {}
        self._led: Counter[int] = Counter()
        self._preferred: Counter[int] = Counter()

    # Queries

    def replicas_of(self, brokers: Iterable[int]) -> list[PartitionKey]:
        """Partitions that are assigned to one of the brokers, each once."""
        found: dict[PartitionKey, None] = {}
        for broker_id in brokers:
            found.update(self._by_broker.get(broker_id, {}))
        return list(found)

    @property
    def leaderless(self) -> Collection[PartitionKey]:
        """Partitions without a leader."""
        return self._leaderless.keys()

    @property
    def imbalanced(self) -> Collection[PartitionKey]:
        """Partitions whose leader is not their preferred leader, the first replica."""
        return self._imbalanced.keys()

    @property
    def reassigning(self) -> Collection[PartitionKey]:
        """Partitions with a reassignment that is not completed."""
        return self._reassigning.keys()

    def leads(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        return self._led[broker_id] > 0

    def preferred_leaders(self) -> Counter[int]:
        """The number of partitions of which each broker is the preferred leader. A copy."""
        return Counter(self._preferred)

    # Changes

    def load(self, image: MetadataImage) -> None:
        """Replace the index by that of an image."""
        self.__init__()  # type: ignore[misc]
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                self._change((topic.topic_id, index), None, partition)

    def update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow the changes from `delta.base` to `image`."""
        base = delta.base.topics.by_id
        for topic_id in delta.deleted_topic_ids:
            for index, partition in base[topic_id].partitions.items():
                self._change((topic_id, index), partition, None)
        for topic_id in delta.changed_topics:
            before = _partitions(base.get(topic_id))
            after = image.topics.by_id[topic_id].partitions
            for index in sorted(delta.changed_partitions(topic_id)):
                self._change((topic_id, index), before.get(index), after[index])

    def _change(self, key: PartitionKey, old: PartitionImage | None, new: PartitionImage | None) -> None:
        before = () if old is None else old.replicas
        after = () if new is None else new.replicas
        if before != after:
            self._reassign(key, before, after)
        if old is not None and old.leader != NO_LEADER:
            self._led[old.leader] -= 1
        if new is not None and new.leader != NO_LEADER:
            self._led[new.leader] += 1
        _mark(self._leaderless, key, is_member=new is not None and new.leader == NO_LEADER)
        _mark(self._imbalanced, key, is_member=new is not None and new.leader != new.replicas[0])
        is_reassigning = new is not None and bool(new.adding_replicas or new.removing_replicas)
        _mark(self._reassigning, key, is_member=is_reassigning)

    def _reassign(self, key: PartitionKey, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        for broker_id in before:
            if broker_id not in after:
                del self._by_broker[broker_id][key]
        for broker_id in after:
            if broker_id not in before:
                self._by_broker.setdefault(broker_id, {})[key] = None
        if before:
            self._preferred[before[0]] -= 1
        if after:
            self._preferred[after[0]] += 1


def _partitions(topic: TopicImage | None) -> dict[int, PartitionImage]:
    return {} if topic is None else dict(topic.partitions)


def _mark(members: dict[PartitionKey, None], key: PartitionKey, *, is_member: bool) -> None:
    if is_member:
        members[key] = None
    else:
        members.pop(key, None)
