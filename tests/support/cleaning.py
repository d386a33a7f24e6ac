"""A compacted log with a cleaner at hand, driven step by step on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from ottla.base.errors import StorageFault
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid
from ottla.records.batch import BatchHeader
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import EndTxnMarker, build_end_txn_batch
from ottla.records.record import iter_records, record_timestamp
from ottla.storage.cleaning.cleaner import Cleaner, CleanerConfig
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.batch_scan import walk
from ottla.storage.recovery.recovery import LastKnown, open_log
from ottla.testing.executor import InlineExecutor

TOPIC_ID = Uuid(int=5)
PARTITION = TopicPartition("compacted", 0)


class Stored(NamedTuple):
    """A record in a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class ManualTime:
    """A clock that stands still, and the timers that wait for it."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.waiting.append((seconds, call))

    def fire(self) -> float:
        """Run the oldest timer; returns the seconds it asked for."""
        seconds, call = self.waiting.pop(0)
        call()
        return seconds


class CleanedLog:
    """A log and what a test does to it."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        settings: dict[str, object] | None = None,
        cleaner: CleanerConfig | None = None,
        last: LastKnown | None = None,
    ) -> None:
        self.time = ManualTime()
        self.disk = disk
        self.root = root
        self.config = LogConfig.from_values(
            {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": 0.0,
                "index.interval.bytes": 100,
                "delete.retention.ms": 1_000,
                **(settings or {}),
            }
        )
        self.log: Log = open_log(
            disk,
            f"{root}/{PARTITION}",
            PARTITION,
            TOPIC_ID,
            self.config,
            last=last or LastKnown(),
            rng=Random(1),
            now_ms=self.time.ms,
        )
        self.faults: list[StorageFault] = []
        self.executor = InlineExecutor()
        self.cleaner = Cleaner(
            disk,
            lambda: [self.log],
            cleaner or CleanerConfig(),
            clock=self.time,
            executor=self.executor,
            later=self.time.later,
            on_fault=self.faults.append,
        )

    def write(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        epoch: int = -1,
        sequence: int = -1,
        transactional: bool = False,
    ) -> int:
        """Append one batch; returns its base offset."""
        base = self.log.log_end_offset
        records = [NewRecord(key, value, timestamp=self.time.ms + n) for n, (key, value) in enumerate(pairs)]
        self.append(
            build_batch(
                records,
                base_offset=base,
                leader_epoch=0,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )
        return base

    def end_txn(self, producer_id: int, epoch: int, *, committed: bool) -> int:
        base = self.log.log_end_offset
        marker = EndTxnMarker(committed, 0)
        self.append(
            build_end_txn_batch(
                marker,
                timestamp=self.time.ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_offset=base,
                leader_epoch=0,
            )
        )
        return base

    def append(self, batch: bytes) -> None:
        self.log.append_raw(batch, self.time.ms)
        self.log.flush(self.time.ms)
        self.log.high_watermark = self.log.log_end_offset

    def roll(self) -> None:
        self.log.roll(self.time.ms)
        self.log.flush(self.time.ms)

    def clean(self) -> int:
        """Clean until the cleaner finds nothing more to do; returns how many steps it took."""
        self.cleaner.start()
        steps = 0
        while self.time.waiting and (self.cleaner.cleaning or self.time.waiting[0][0] == 0):
            self.time.fire()
            steps += 1
        self.cleaner.stop()
        self.time.waiting.clear()
        return steps

    def batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        for segment in self.log.segments:
            for position, header in walk(segment.file, 0, segment.written_size):
                yield header, segment.file.pread(header.size_in_bytes, position)

    def records(self) -> list[Stored]:
        """Every data record in the log."""
        return [
            Stored(
                header.base_offset + record.offset_delta,
                record.key,
                record.value,
                record_timestamp(header, record),
            )
            for header, batch in self.batches()
            if not header.is_control
            for record in iter_records(batch, header)
        ]

    def keys(self) -> list[tuple[int, bytes | None]]:
        return [(record.offset, record.key) for record in self.records()]
