"""The replica fetchers of this broker: one for each leader of partitions that this broker follows.

`load` and `apply` follow the metadata, after `Replicas` has followed the same image. A partition that gets another
leader or leader epoch is followed anew; responses of the old term have no effect from the moment in which its
`Partition` has the new term.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.ids import Uuid
from ottla.broker.replica.followed import FollowedPartition
from ottla.broker.replica.leader_fetcher import Key, LeaderFetcher
from ottla.broker.replica.ports import FetcherEnvironment
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas


class ReplicaFetchers:
    """Follows the leaders of all partitions of which this broker is a follower."""

    def __init__(self, replicas: Replicas, environment: FetcherEnvironment) -> None:
        self._replicas = replicas
        self._environment = environment
        self._followed: dict[Key, tuple[FollowedPartition, LeaderFetcher]] = {}
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._closed = False

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter([followed for followed, _ in self._followed.values()])

    def load(self, image: MetadataImage) -> None:
        """Follow the leaders in an image, at the start."""
        for topic_id, topic in image.topics.by_id.items():
            for index in topic.partitions:
                self._update(topic_id, index)
        self._close_unused()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a change of the metadata."""
        for topic_id in delta.deleted_topic_ids:
            for index in delta.base.topics.by_id[topic_id].partitions:
                self._update(topic_id, index)
        for topic_id in delta.changed_topics:
            for index in delta.changed_partitions(topic_id):
                self._update(topic_id, index)
        self._close_unused()

    def served(self, partition: Partition) -> None:
        """Follow a partition that is served from now on. If its log was lost, its metadata may not have changed."""
        self._update(partition.topic_id, partition.index)

    def close(self) -> None:
        """Stop fetching."""
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        for followed, _ in self._followed.values():
            followed.stop()
        self._fetchers.clear()
        self._followed.clear()

    def _update(self, topic_id: Uuid, index: int) -> None:
        key = (topic_id.bytes, index)
        partition = self._replicas.by_id.get(key[0], {}).get(index)
        known = self._followed.get(key)
        if known is not None:
            followed, fetcher = known
            if followed.partition is partition and followed.is_current:
                return
            del self._followed[key]
            followed.stop()
            fetcher.remove(followed)
        if (
            partition is not None
            and not partition.leads
            and partition.leader != NO_LEADER
            and not self._closed
        ):
            self._follow(key, partition)

    def _follow(self, key: Key, partition: Partition) -> None:
        fetcher = self._fetchers.get(partition.leader)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader] = LeaderFetcher(partition.leader, self._environment)
        followed = FollowedPartition(partition, self._environment, fetcher)
        partition.follower = followed
        self._followed[key] = (followed, fetcher)
        fetcher.add(followed)

    def _close_unused(self) -> None:
        for leader_id, fetcher in list(self._fetchers.items()):
            if not len(fetcher):
                fetcher.close()
                del self._fetchers[leader_id]
