"""A quorum of one on a real directory, driven without threads."""

from __future__ import annotations

import random
import uuid

from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC_ID, TopicPartition
from ottla.quorum.formatting import format_quorum
from ottla.quorum.metadata_log import StorageMetadataLog
from ottla.quorum.quorum import Appended, ListenerAddress
from ottla.quorum.single import LocalVoter, SingleQuorum
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.executor import InlineExecutor

PARTITION = TopicPartition("__cluster_metadata", 0)
CONFIG = LogConfig(retention_ms=-1, file_delete_delay_ms=0, segment_bytes=1 << 20)


class FixedClock:
    now = 1_000_000

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


def voter(node_id: int = 1, directory: int = 9, port: int = 9093) -> LocalVoter:
    return LocalVoter(node_id, uuid.UUID(int=directory), [ListenerAddress("CONTROLLER", "localhost", port)])


class QuorumBench:
    """Opens the quorum below `root`, formatting it first if it is new."""

    def __init__(
        self, disk: Disk, root: str, *, me: LocalVoter | None = None, interval: int = 1 << 30
    ) -> None:
        self.clock = FixedClock()
        self.executor = InlineExecutor()
        self.directory = f"{root}/{PARTITION}"
        me = me or voter()
        if not disk.is_dir(self.directory) or not disk.listdir(self.directory):
            format_quorum(disk, root, self.directory, voter=me, bootstrap=[b"level"], now_ms=5)
        self.log: Log = open_log(
            disk,
            self.directory,
            PARTITION,
            METADATA_TOPIC_ID,
            CONFIG,
            last=LastKnown(),
            rng=random.Random(1),
            now_ms=5,
        )
        self.quorum = SingleQuorum(
            disk,
            self.directory,
            StorageMetadataLog(self.log, self.executor, self.clock),
            voter=me,
            clock=self.clock,
            executor=self.executor,
            snapshot_interval_bytes=interval,
        )

    def lead(self) -> QuorumBench:
        results: list[Appended | BaseException] = []
        self.quorum.lead(results.append)
        self.executor.run_all()
        assert isinstance(results[0], Appended), results
        return self

    def append(self, *values: bytes) -> Appended:
        results: list[Appended | BaseException] = []
        self.quorum.append(values, results.append)
        self.executor.run_all()
        (result,) = results
        if isinstance(result, BaseException):
            raise result
        return result

    def values(self) -> list[bytes]:
        return [value for batch in self.quorum.load() for value in batch.values]

    def close(self) -> None:
        self.log.close(self.clock.now_ms())
