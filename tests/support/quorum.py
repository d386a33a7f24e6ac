"""A quorum of one on a real directory, driven without threads."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence

from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC_ID, TopicPartition
from ottla.quorum.formatting import format_quorum
from ottla.quorum.metadata_log import StorageMetadataLog
from ottla.quorum.quorum import CommittedBatch, CommittedSnapshot, ListenerAddress
from ottla.quorum.single import SingleQuorum
from ottla.quorum.voter import LocalVoter
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


class Recorder:
    """Both listeners of a quorum: records what is delivered, in order."""

    def __init__(self) -> None:
        self.snapshot: list[bytes] = []
        self.batches: list[CommittedBatch] = []
        self.events: list[object] = []

    def load_snapshot(self, snapshot: CommittedSnapshot) -> None:
        self.snapshot = list(snapshot.values)
        self.events.append(("snapshot", snapshot.last_offset, snapshot.epoch))

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        self.batches += batches
        self.events.append(("committed", batches[-1].last_offset))

    def leading(self, epoch: int) -> None:
        self.events.append(("leading", epoch))

    def resigned(self, epoch: int) -> None:
        self.events.append(("resigned", epoch))

    def failed(self, error: BaseException) -> None:
        self.events.append(("failed", error))

    def values(self) -> list[bytes]:
        return self.snapshot + [value for batch in self.batches for value in batch.values]


class QuorumBench:
    """Opens the quorum below `root`, formatting it first if it is new. `run` plays the event loop."""

    def __init__(
        self, disk: Disk, root: str, *, me: LocalVoter | None = None, interval: int = 1 << 30
    ) -> None:
        self.clock = FixedClock()
        self.executor = InlineExecutor()
        self.deferred: list[Callable[[], None]] = []
        self.seen = Recorder()
        self._started = False
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
            defer=self.deferred.append,
            snapshot_interval_bytes=interval,
        )

    def lead(self) -> QuorumBench:
        """Start the quorum; it leads afterwards."""
        self.load()
        self.run()
        assert self.seen.events[-1] == ("leading", self.quorum.epoch), self.seen.events
        return self

    def load(self) -> QuorumBench:
        """Start the quorum up to the first change to the disk: what is stored is delivered."""
        if not self._started:
            self._started = True
            self.executor.stepped = True
            self.quorum.start(self.seen, self.seen)
        return self

    def run(self) -> None:
        """Do everything that is deferred or waits for the executor."""
        self.executor.stepped = False
        self.executor.run_all()
        while self.deferred:
            self.deferred.pop(0)()
            self.executor.run_all()

    def append(self, *values: bytes) -> tuple[int, int]:
        """Append and commit; the offset of the last record, and its epoch. Raises what the log failed with."""
        epoch = self.quorum.epoch
        last_offset = self.quorum.append(epoch, values)
        self.run()
        for event in self.seen.events:
            match event:
                case ("failed", BaseException() as error):
                    raise error
        assert self.seen.batches[-1].last_offset == last_offset
        return last_offset, epoch

    def values(self) -> list[bytes]:
        """Every committed value, as a start delivers it and as commits follow."""
        return self.load().seen.values()

    def close(self) -> None:
        self.log.close(self.clock.now_ms())
