"""Partitions led by one broker, over real logs on a simulated disk: as much of `Replicas` as asking needs."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import cast

from ottla.base.errors import ApiError, ErrorCode, StorageFault
from ottla.base.ids import TopicPartition
from ottla.metadata.image import PartitionImage
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.cluster_view import ClusterView
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.storage.commit.group_commit import GroupCommit
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.producers.producer_state import Verification
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.disk import SimDisk
from ottla.testing.executor import InlineExecutor
from tests.support.coordination import FakeClock

NODE = 1
ALL = -1
FIRST_OF_SECOND_GENERATION = 12


class Leaders:
    """Nothing is written before `settle`."""

    def __init__(self, clock: FakeClock, *names: str) -> None:
        self._clock = clock
        self._deferred: list[Callable[[], None]] = []
        self._disk = SimDisk(random.Random(1))
        self._disk.makedirs("/d")
        self.faults: list[StorageFault] = []
        self.elsewhere: set[TopicPartition] = set()
        """Partitions of which only other brokers have replicas."""
        self._group_commit = GroupCommit(
            InlineExecutor(),
            clock,
            defer=self._deferred.append,
            on_progress=lambda log: self._by_log[log].progressed(),
            on_fault=self.faults.append,
        )
        self._by_log: dict[Log, Partition] = {}
        self._partitions = {TopicPartition(name, 0): self._lead(name) for name in names}

    @property
    def replicas(self) -> Replicas:
        return cast(Replicas, self)

    def get(self, topic: str, index: int) -> Partition:
        found = self._partitions.get(TopicPartition(topic, index))
        if TopicPartition(topic, index) in self.elsewhere:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def lookup(self, key: bytes, index: int, *, by_id: bool) -> Partition:
        return self.get(key.decode(), index)

    def settle(self) -> None:
        """Write everything that is staged."""
        while self._deferred:
            self._deferred.pop(0)()

    def _lead(self, name: str) -> Partition:
        log = open_log(
            self._disk,
            f"/d/{name}-0",
            TopicPartition(name, 0),
            uuid.UUID(int=7),
            LogConfig(),
            last=LastKnown(clean=True),
            rng=random.Random(1),
            now_ms=self._clock.now_ms(),
        )
        partition = Partition(
            log,
            uuid.UUID(int=7),
            NODE,
            self._group_commit.schedule,
            self.faults.append,
            ClusterView(self._clock),
        )
        self._by_log[log] = partition
        partition.become(
            PartitionImage(
                replicas=(NODE,), directories=(uuid.UUID(int=0),), isr=(NODE,), leader=NODE, leader_epoch=0
            )
        )
        return partition

    def append(
        self,
        topic: str,
        producer_id: int,
        epoch: int,
        sequence: int,
        verification: Verification | None,
        version: int = FIRST_OF_SECOND_GENERATION,
    ) -> int:
        """Append one record of a transaction; its offset."""
        data = build_batch(
            [NewRecord(b"k", b"v", timestamp=self._clock.now_ms())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        view = memoryview(bytearray(data))
        return self.get(topic, 0).append(view, ALL, self._clock.now_ms(), version, verification).base_offset
