"""The quorum's log on a simulated disk, with short ways to write snapshots and fetched batches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.quorum.raft.messages import OffsetAndEpoch
from ottla.quorum.runtime.storage_log import StorageRaftLog
from ottla.quorum.snapshots import SnapshotId, SnapshotStore, encode_snapshot
from ottla.records.batch import iter_batches
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import iter_records
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from ottla.wire.schema import Message

PARTITION = TopicPartition(METADATA_TOPIC, 0)
DIRECTORY = f"/d/{PARTITION}"
CONFIG = LogConfig(flush_messages=1, retention_ms=-1, file_delete_delay_ms=0)


class Bench:
    """A log on a disk, with what it has reported. Writes wait until the executor makes a step if it is stepped."""

    def __init__(self, disk: SimDisk | None = None, *, stepped: bool = False) -> None:
        self.now = 1000
        self.disk = disk or SimDisk(random.Random(1))
        self.disk.makedirs(DIRECTORY)
        self.executor = InlineExecutor(stepped=stepped)
        self.durable: list[int] = []
        self.faults: list[BaseException] = []
        self.storage = opened(self.disk)
        self.log = StorageRaftLog(self.disk, DIRECTORY, self.storage, self.executor, self)
        self.log.on_durable = lambda: self.durable.append(self.log.durable_offset)
        self.log.on_fault = self.faults.append

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def append(self, epoch: int, *values: bytes) -> None:
        self.log.append(epoch, values)

    def snapshot(self, offset: int, epoch: int, controls: Sequence[Message] = ()) -> None:
        """Write a snapshot of the local state, as the driver does."""
        self.log.committed(self.log.end_offset)
        self.log.roll()
        store(self.disk, offset, epoch)
        self.log.snapshot_written(OffsetAndEpoch(offset, epoch), controls)

    @property
    def offsets(self) -> tuple[int, int, int]:
        return self.log.start_offset, self.log.durable_offset, self.log.end_offset

    @property
    def checkpoints(self) -> list[str]:
        return [name for name in self.disk.listdir(DIRECTORY) if name.endswith(".checkpoint")]

    @property
    def segments(self) -> list[str]:
        return [name for name in self.disk.listdir(DIRECTORY) if name.endswith(".log")]


def opened(disk: SimDisk, config: LogConfig = CONFIG) -> Log:
    last = LastKnown(cut_good=False)
    rng = random.Random(1)
    return open_log(disk, DIRECTORY, PARTITION, METADATA_TOPIC_ID, config, last=last, rng=rng, now_ms=0)


def snapshot_data(*values: bytes) -> bytes:
    return encode_snapshot(values, epoch=1, last_timestamp_ms=5, controls=(), now_ms=9)


def store(disk: SimDisk, offset: int, epoch: int) -> None:
    SnapshotStore(disk, DIRECTORY).write(SnapshotId(offset, epoch), snapshot_data(b"state"))


def file_name(offset: int, epoch: int) -> str:
    return SnapshotId(offset, epoch).file_name


def download(log: StorageRaftLog, snapshot: OffsetAndEpoch) -> bytes:
    data = snapshot_data(b"x", b"y")
    log.write_snapshot_part(snapshot, 0, data[:30])
    log.write_snapshot_part(snapshot, 30, data[30:])
    log.install_snapshot(snapshot)
    return data


def fetched(offset: int, epoch: int, *values: bytes) -> bytes:
    """A batch as the leader sends it."""
    return build_batch(
        [NewRecord(None, value, (), 5) for value in values], base_offset=offset, leader_epoch=epoch
    )


def content(data: bytes) -> list[tuple[int, int, list[bytes | None]]]:
    """Base offset, epoch and values of each batch."""
    view = memoryview(data)
    return [
        (
            header.base_offset,
            header.partition_leader_epoch,
            [record.value for record in iter_records(batch, header)],
        )
        for position, header in iter_batches(view)
        for batch in [view[position : position + header.size_in_bytes]]
    ]


def crashed(bench: Bench) -> Bench:
    """The log after a power failure that keeps only what was synced."""
    return Bench(bench.disk.crash(Survival.NONE))
