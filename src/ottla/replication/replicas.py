"""The replicas on this broker, which follow the metadata: created, led, reconfigured, deleted.

`apply` is the listener of the metadata log: it compares delta and image with what is here. Partitions that are served
change their roles at once, unless their logs are being truncated, and those of deleted topics are not served any
more: a request that names a new topic of the same name must not find them. Logs are created and deleted in the
executor, some at a time and one change of the metadata after the other; a partition whose log is still being created
returns NOT_LEADER_OR_FOLLOWER, and begins with the role that it has in the newest image. A topic is found by its name
or id, in the bytes of the request, without decoding.

A log that was lost with its directory is created again in another one, empty, once another broker leads the partition
and this replica can neither be elected nor join the ISR before it has been copied: it is not in the ISR, and the
metadata says that its directory is not registered. The new directory is reported only when the leader has accepted a
fetch of the new log (`Partition.replaces_lost`): until then the leader knows the offsets of the lost one.

A log whose `partition.metadata` was lost gets the id of the topic with its name, and the file is written again, unless
its last leader epoch is above that of the partition: then it belonged to another topic.

Concurrency: the event loop only. Failure: a log directory that fails takes its partitions offline, the others are
served; a partition whose log cannot be created returns KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.base.promise import Promise
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import (
    EMPTY_IMAGE,
    NO_LEADER,
    RESERVED_DIRECTORIES,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.replication.cluster_view import ClusterView
from ottla.replication.partition import Partition
from ottla.storage.bulk import Queue, in_order
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import NewLog, OnCreated


class LogHome(Protocol):
    """Where logs are kept (`storage.log_dirs`)."""

    def get(self, partition: TopicPartition) -> Log | None: ...

    def create_logs(self, wanted: Iterable[NewLog], now_ms: int, on_created: OnCreated) -> Promise[None]: ...

    def delete_logs(self, partitions: Iterable[TopicPartition], now_ms: int) -> Promise[None]: ...

    def fail(self, fault: StorageFault) -> None: ...

    def is_online(self, directory_id: Uuid) -> bool: ...

    def abandon(self, log: Log) -> None: ...

    def set_topic_id(self, log: Log, topic_id: Uuid) -> None: ...


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
        cluster: ClusterView | None = None,
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster or ClusterView(clock)
        self._image = EMPTY_IMAGE
        self._logs = logs
        self._clock = clock
        self._schedule = schedule
        self._log_config = log_config
        self._on_error = on_error
        self.by_name: dict[bytes, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._by_log: dict[Log, Partition] = {}
        # Partitions that belong here and have no log: it is being created, or could not be. By name and by id.
        self._errors: dict[tuple[bytes, int], ErrorCode] = {}
        self._changes = Queue()
        self.on_served: list[Callable[[Partition], None]] = []
        """Called with each partition that is served from now on."""

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
        error = self._errors.get((key, index))
        if error is not None:
            raise ApiError(error)
        topics = self._image.topics
        known = (
            topics.by_id.get(Uuid(bytes=key)) if by_id else topics.by_name.get(key.decode("utf-8", "replace"))
        )
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if index in known.partitions:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # other brokers have it
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def progressed(self, log: Log) -> None:
        """Records of a log have been written or synced."""
        partition = self._by_log.get(log)
        if partition is not None:
            partition.progressed()

    def write_started(self, log: Log) -> None:
        """A write of a log that has followers has started."""
        partition = self._by_log.get(log)
        if partition is not None:
            partition.write_started()

    def log_moved(self, old: Log, new: Log) -> None:
        """A log was replaced by its copy in another directory."""
        partition = self._by_log.pop(old, None)
        if partition is not None:
            partition.log = new
            self._by_log[new] = partition

    def check_isr(self) -> None:
        """Propose to remove followers that lag from the ISRs of the partitions that this broker leads."""
        for partition in self:
            partition.check_isr()

    def directory_failed(self, directory: str) -> None:
        for partition in self:
            if partition.log.log_dir == directory:
                partition.failed()

    # Following the metadata

    def load(self, image: MetadataImage) -> Promise[None]:
        """Take over a whole image, at the start."""
        self._image = image
        self._cluster.brokers = image.brokers
        changed = [(topic, index) for topic in image.topics.by_id.values() for index in topic.partitions]
        return self._changes.add(lambda: self._follow(_Change(image), changed))

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> Promise[None]:
        """Follow a change of the metadata; the promise is kept when all its partitions can be used.

        Roles change at once. Logs are created and deleted in the order of the changes.
        """
        self._image = image
        if self._cluster.brokers is not image.brokers:
            self._cluster.brokers = image.brokers
            for partition in self._by_log.values():
                partition.brokers_changed()
        for topic_id in delta.deleted_topic_ids:
            for partition in list(self.by_id.get(topic_id.bytes, {}).values()):
                self._unhost(partition)
        truncating: list[Promise[None]] = []
        for topic_id in delta.changed_topics:
            served = self.by_id.get(topic_id.bytes)
            for index in delta.changed_partitions(topic_id) if served else ():
                if served and index in served:
                    self._change_role(served[index], truncating)
        return self._changes.add(lambda: self._apply(delta, image, truncating))

    def _change_role(self, partition: Partition, truncating: list[Promise[None]]) -> None:
        if not partition.log.truncating:
            self._become(partition)
            return
        done: Promise[None] = Promise()
        truncating.append(done)

        def change() -> None:
            self._become(partition)
            done.keep(None)

        partition.log.when_idle(change)

    def _become(self, partition: Partition) -> None:
        """Give a partition its role in the newest image; one that is deleted there will be removed."""
        topic = self._image.topics.by_id.get(partition.topic_id)
        if topic is not None and partition.index in topic.partitions and partition.log in self._by_log:
            partition.become(topic.partitions[partition.index])

    def _apply(
        self, delta: MetadataDelta, image: MetadataImage, truncating: list[Promise[None]]
    ) -> Promise[None]:
        change = _Change(image)
        for topic_id in delta.deleted_topic_ids:
            self._remove(delta.base.topics.by_id[topic_id], change)
        changed = [
            (image.topics.by_id[topic_id], index)
            for topic_id in delta.changed_topics
            for index in sorted(delta.changed_partitions(topic_id))
        ]
        if self._node_id in delta.changed_brokers:
            # A directory may have failed that has replicas outside of the ISR: their partitions have not changed.
            changed += [
                (topic, one.index)
                for one in self
                if one.log.offline
                and (topic := image.topics.by_id.get(one.topic_id))
                and one.index in topic.partitions
            ]
        followed = self._follow(change, changed, truncating)
        followed.when_done(lambda _, __: self._reconfigure(delta, image))
        return followed

    def _follow(
        self,
        change: _Change,
        changed: Iterable[tuple[TopicImage, int]],
        truncating: Iterable[Promise[None]] = (),
    ) -> Promise[None]:
        for topic, index in changed:
            key = (topic.topic_id, index)
            if key not in change.updated:
                change.updated.add(key)
                self._update(topic, index, change)
        now_ms = self._clock.now_ms()
        return in_order(
            [
                *((lambda done=done: done) for done in truncating),
                lambda: self._logs.delete_logs(change.deleted, now_ms),
                lambda: self._logs.create_logs(change.created, now_ms, partial(self._created, change)),
            ]
        )

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

    def _update(self, topic: TopicImage, index: int, change: _Change) -> None:
        newest = self._image.topics.by_id.get(topic.topic_id)
        if newest is None:
            return  # deleted since; a later change removes the log
        # A replica that was removed and is assigned again copies from the leader already: its log must stay.
        wanted = newest.partitions[index]
        known = self.by_id.get(topic.topic_id.bytes, {}).get(index)
        if self._node_id not in wanted.replicas:
            if known is not None:
                self._drop(known, change)
        elif known is None:
            self._add(topic, index, wanted, change)
        elif known.log.offline and self._may_copy(wanted):
            self._unhost(known)
            self._logs.abandon(known.log)
            self._add(topic, index, wanted, change)

    def _may_copy(self, wanted: PartitionImage) -> bool:
        """Whether a lost log can be created again, empty: another broker leads, and this one cannot be elected.

        A replica outside the ISR is not elected, and does not join the ISR, if its directory is not registered (any
        more). A directory that has failed before it was reported must be reported first.
        """
        if wanted.leader in (NO_LEADER, self._node_id) or self._node_id in wanted.isr:
            return False
        broker = self._image.brokers.get(self._node_id)
        registered = () if broker is None else broker.log_dirs
        return not wanted.is_online(self._node_id, registered)

    def _add(self, topic: TopicImage, index: int, wanted: PartitionImage, change: _Change) -> None:
        topic_partition = TopicPartition(topic.name, index)
        config = change.configs.get(topic.name)
        try:
            if config is None:
                config = change.configs[topic.name] = self._log_config(change.image, topic.name)
            log = self._logs.get(topic_partition)
            if log is not None and log.topic_id == ZERO_UUID and log.latest_epoch <= wanted.leader_epoch:
                self._logs.set_topic_id(log, topic.topic_id)
            if log is not None and log.topic_id == topic.topic_id:
                self._host(topic, index, log, config)
                return
        except Exception as error:  # noqa: BLE001 - an error of one partition must not stop the others
            self._fail(topic, index, error)
            return
        if log is not None:
            # It belonged to a deleted topic of the same name: it has another id, or records of a later leader epoch.
            change.deleted[topic_partition] = None
        for key in _keys(topic, index):
            self._errors[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assigned = wanted.directory_of(self._node_id)
        is_lost = assigned not in RESERVED_DIRECTORIES and not self._logs.is_online(assigned)
        replaces_lost = is_lost and self._may_copy(wanted)
        if replaces_lost:
            change.replaced.add((topic.topic_id, index))
        anywhere = replaces_lost or assigned in RESERVED_DIRECTORIES
        directory_id = ZERO_UUID if anywhere else assigned
        change.created.append(NewLog(topic_partition, topic.topic_id, config, directory_id))

    def _created(self, change: _Change, new: NewLog, result: Log | Exception) -> None:
        """A log has been created, or could not be."""
        topic, index = change.image.topics.by_id[new.topic_id], new.partition.partition
        if isinstance(result, Exception):
            self._fail(topic, index, result)
        else:
            replaces_lost = (topic.topic_id, index) in change.replaced
            self._host(topic, index, result, new.config, replaces_lost=replaces_lost)

    def _host(
        self, topic: TopicImage, index: int, log: Log, config: LogConfig, *, replaces_lost: bool = False
    ) -> None:
        """Serve a partition from its log."""
        partition = Partition(
            log, topic.topic_id, self._node_id, self._schedule, self._logs.fail, self._cluster
        )
        partition.replaces_lost = replaces_lost
        if log.config is not config:
            partition.reconfigure(config)
        for key in _keys(topic, index):
            self._errors.pop(key, None)
        self.by_name.setdefault(topic.name.encode(), {})[index] = partition
        self.by_id.setdefault(topic.topic_id.bytes, {})[index] = partition
        self._by_log[log] = partition
        self._become(partition)
        for served in self.on_served:
            served(partition)

    def _fail(self, topic: TopicImage, index: int, error: Exception) -> None:
        for key in _keys(topic, index):
            self._errors[key] = ErrorCode.KAFKA_STORAGE_ERROR
        self._on_error(TopicPartition(topic.name, index), error)

    def _remove(self, topic: TopicImage, change: _Change) -> None:
        """Remove a deleted topic. Partitions are served again if their logs were created since."""
        for partition in list(self.by_id.get(topic.topic_id.bytes, {}).values()):
            self._unhost(partition)
        for index in topic.partitions:
            for key in _keys(topic, index):
                self._errors.pop(key, None)
            where = TopicPartition(topic.name, index)
            log = self._logs.get(where)
            if log is not None and log.topic_id == topic.topic_id:
                change.deleted[where] = None

    def _drop(self, partition: Partition, change: _Change) -> None:
        self._unhost(partition)
        change.deleted[TopicPartition(partition.topic, partition.index)] = None

    def _unhost(self, partition: Partition) -> None:
        partition.stop()
        del self._by_log[partition.log]
        for table, key in ((self.by_name, partition.topic.encode()), (self.by_id, partition.topic_id.bytes)):
            topic = table[key]
            if topic.get(partition.index) is partition:
                del topic[partition.index]
                if not topic:
                    del table[key]


class _Change:
    """One change that is being followed, and the logs that it deletes and creates."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.configs: dict[str, LogConfig] = {}
        self.updated: set[tuple[Uuid, int]] = set()
        self.deleted: dict[TopicPartition, None] = {}
        """In order, each once: a topic may be deleted and created again in one change."""
        self.created: list[NewLog] = []
        self.replaced: set[tuple[Uuid, int]] = set()
        """Those of the created logs that replace lost ones."""


def _keys(topic: TopicImage, index: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    return (topic.name.encode(), index), (topic.topic_id.bytes, index)
