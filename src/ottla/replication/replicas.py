"""The replicas on this broker, kept in step with the metadata: created, led, reconfigured, deleted.

`apply` is the listener of the metadata log: it compares delta and image with what is here. A topic is found
by its name, or by its name or id as they stand on the wire, without decoding.

Concurrency: the event loop only. Failure: a log directory that breaks takes its partitions offline, the rest
is served; a topic whose log cannot be made answers KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import RESERVED_DIRECTORIES, MetadataImage, PartitionImage, ResourceType, TopicImage
from ottla.replication.partition import Partition
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig


class LogHome(Protocol):
    """Where logs live (`storage.log_dirs`)."""

    def get(self, partition: TopicPartition) -> Log | None: ...

    def create_log(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        now_ms: int,
        *,
        directory_id: Uuid = ZERO_UUID,
    ) -> Log: ...

    def delete_log(self, partition: TopicPartition, now_ms: int) -> None: ...

    def sync_deletions(self) -> None: ...

    def fail(self, fault: StorageFault) -> None: ...


LogConfigs = Callable[[MetadataImage, str], LogConfig]


class Replicas:
    """All partitions of which this broker holds a replica."""

    def __init__(
        self,
        node_id: int,
        logs: LogHome,
        clock: Clock,
        schedule: Callable[[Log], None],
        log_config: LogConfigs,
        on_error: Callable[[TopicPartition, Exception], None],
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._clock = clock
        self._schedule = schedule
        self._log_config = log_config
        self._on_error = on_error
        self.by_name: dict[bytes, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._by_log: dict[Log, Partition] = {}
        # Partitions that belong here but whose log could not be opened, by name and by id.
        self._broken: set[tuple[bytes, int]] = set()

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_log.values()))

    def get(self, topic: str, index: int) -> Partition:
        """The partition, or the ApiError a client gets for asking here."""
        return self.lookup(topic.encode(), index, by_id=False)

    def lookup(self, key: bytes, index: int, *, by_id: bool) -> Partition:
        """The same by the topic's name or id as it stands on the wire."""
        topic = (self.by_id if by_id else self.by_name).get(key)
        partition = None if topic is None else topic.get(index)
        if partition is not None:
            return partition
        if (key, index) in self._broken:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if topic is None and by_id:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def progressed(self, log: Log) -> None:
        """The committer has written more of a log."""
        partition = self._by_log.get(log)
        if partition is not None:
            partition.progressed()

    def directory_failed(self, directory: str) -> None:
        for partition in self:
            if partition.log.log_dir == directory:
                partition.failed()

    # Following the metadata

    def load(self, image: MetadataImage) -> None:
        """Take over a whole image, at the start."""
        for topic in image.topics.by_id.values():
            for index in topic.partitions:
                self._update(topic, index, image)
        self._logs.sync_deletions()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Do what the change asks of this broker."""
        for topic_id in delta.deleted_topic_ids:
            self._remove(delta.base.topics.by_id[topic_id])
        for topic_id in delta.changed_topics:
            topic = image.topics.by_id[topic_id]
            for index in sorted(delta.changed_partitions(topic_id)):
                self._update(topic, index, image)
        self._logs.sync_deletions()
        self._reconfigure(delta, image)

    def _reconfigure(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changed = delta.changed_configs
        if any(kind == ResourceType.BROKER for kind, _ in changed):
            names = list(image.topics.by_name)
        else:
            names = [name for kind, name in changed if kind == ResourceType.TOPIC]
        for name in names:
            partitions = self.by_name.get(name.encode())
            if partitions:
                config = self._log_config(image, name)
                for partition in partitions.values():
                    partition.reconfigure(config)

    def _update(self, topic: TopicImage, index: int, image: MetadataImage) -> None:
        wanted = topic.partitions[index]
        known = self.by_id.get(topic.topic_id.bytes, {}).get(index)
        if self._node_id not in wanted.replicas:
            if known is not None:
                self._drop(known)
        elif known is not None:
            known.become(wanted)
        else:
            self._add(topic, index, wanted, image)

    def _add(self, topic: TopicImage, index: int, wanted: PartitionImage, image: MetadataImage) -> None:
        topic_partition = TopicPartition(topic.name, index)
        try:
            now_ms = self._clock.now_ms()
            log = self._logs.get(topic_partition)
            if log is not None and log.topic_id not in (topic.topic_id, ZERO_UUID):
                # Left over from a deleted topic of the same name.
                self._logs.delete_log(topic_partition, now_ms)
                log = None
            config = self._log_config(image, topic.name)
            if log is None:
                assigned = wanted.directory_of(self._node_id)
                log = self._logs.create_log(
                    topic_partition,
                    topic.topic_id,
                    config,
                    now_ms,
                    directory_id=ZERO_UUID if assigned in RESERVED_DIRECTORIES else assigned,
                )
            partition = Partition(log, topic.topic_id, self._node_id, self._schedule, self._logs.fail)
            partition.reconfigure(config)
        except Exception as error:  # noqa: BLE001 - one partition's trouble must not stop the metadata log
            self._broken |= _keys(topic, index)
            self._on_error(topic_partition, error)
            return
        self._broken -= _keys(topic, index)
        self.by_name.setdefault(topic.name.encode(), {})[index] = partition
        self.by_id.setdefault(topic.topic_id.bytes, {})[index] = partition
        self._by_log[log] = partition
        partition.become(wanted)

    def _remove(self, topic: TopicImage) -> None:
        for index in topic.partitions:
            self._broken -= _keys(topic, index)
        for partition in list(self.by_id.get(topic.topic_id.bytes, {}).values()):
            self._drop(partition)

    def _drop(self, partition: Partition) -> None:
        partition.stop()
        del self._by_log[partition.log]
        for table, key in ((self.by_name, partition.topic.encode()), (self.by_id, partition.topic_id.bytes)):
            topic = table[key]
            if topic.get(partition.index) is partition:
                del topic[partition.index]
                if not topic:
                    del table[key]
        self._logs.delete_log(TopicPartition(partition.topic, partition.index), self._clock.now_ms())


def _keys(topic: TopicImage, index: int) -> set[tuple[bytes, int]]:
    return {(topic.name.encode(), index), (topic.topic_id.bytes, index)}
