"""A harness for a coordinator runtime: a log in memory and a scheduler that tests control."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Annotated, ClassVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.runtime.ports import Batches
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.runtime.state_machine import Stamp
from ottla.coordinator.runtime.timers import Timers
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.records.batch import read_header, stamp
from ottla.wire.schema import F, Message, Spec
from tests.support.coordination import FakeClock


class WordKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=7, versions="0", flexible="none")

    word: Annotated[str, F("string", "0")] = ""


class WordValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=7, versions="0-1", flexible="1+")

    count: Annotated[int, F("int32", "0+")] = 0


TABLE = RecordTable([WordKey, WordValue])


class FakeScheduler:
    """A scheduler that runs callbacks only in `turn`, `run` and `advance`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._soon: list[Callable[[], None]] = []
        self._timed: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.asked = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.asked += 1
        self._count += 1
        heappush(self._timed, (due_ms, self._count, callback))

    def turn(self) -> bool:
        """Run the callbacks that are ready now, but not those that they schedule."""
        ready, self._soon = self._soon, []
        while self._timed and self._timed[0][0] <= self._clock.now:
            ready.append(heappop(self._timed)[2])
        for callback in ready:
            callback()
        return bool(ready)

    def run(self) -> None:
        while self.turn():
            pass

    def advance(self, milliseconds: int) -> None:
        end = self._clock.now + milliseconds
        self.run()
        while self._timed and self._timed[0][0] <= end:
            self._clock.now = max(self._clock.now, self._timed[0][0])
            self.run()
        self._clock.now = end


class MemoryLog:
    """The partitions of a topic; nothing is committed before `commit`."""

    def __init__(self) -> None:
        self.stored: dict[int, list[bytes]] = {}
        self.committed: dict[int, int] = {}
        self.refuse: ErrorCode | None = None
        """If set, appends fail with this error ..."""
        self.unwritable: ErrorCode | None = None
        """... and so does the call before the first record of a batch."""
        self.epochs: dict[int, int] = {}
        """The leader epochs of partitions; calls in another epoch are refused."""
        self.verifications: list[object] = []
        self.leader_epochs: list[int] = []
        self.bytes_max = 1000
        self._waiting: list[tuple[int, int, Callable[[ErrorCode], None]]] = []

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: memoryview,
        now_ms: int,
        verification: object | None = None,
        *,
        transaction_version: int = 0,
    ) -> int:
        self._check(partition, leader_epoch)
        if self.refuse is not None:
            raise ApiError(self.refuse)
        assert len(batch) <= self.bytes_max
        self.verifications.append(verification)
        self.leader_epochs.append(leader_epoch)
        stamp(batch, self._end_offset(partition), 0)
        self.stored.setdefault(partition, []).append(bytes(batch))
        return self._end_offset(partition)

    def append_offset(self, partition: int, leader_epoch: int) -> int:
        if self.unwritable is not None:
            raise ApiError(self.unwritable)
        return self.end_offset(partition, leader_epoch)

    def end_offset(self, partition: int, leader_epoch: int) -> int:
        self._check(partition, leader_epoch)
        return self._end_offset(partition)

    def committed_offset(self, partition: int, leader_epoch: int) -> int:
        self._check(partition, leader_epoch)
        return self.committed.get(partition, 0)

    def when_committed(
        self, partition: int, leader_epoch: int, end_offset: int, callback: Callable[[ErrorCode], None]
    ) -> None:
        self._check(partition, leader_epoch)
        self._waiting.append((partition, end_offset, callback))

    def batches(self, partition: int, leader_epoch: int) -> Batches:
        for batch in list(self.stored.get(partition, [])):
            header = read_header(batch)
            if header.base_offset < self.committed_offset(partition, leader_epoch):
                yield header, memoryview(batch)

    def _check(self, partition: int, leader_epoch: int) -> None:
        if self.epochs.get(partition, leader_epoch) != leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)

    def _end_offset(self, partition: int) -> int:
        stored = self.stored.get(partition)
        return read_header(stored[-1]).last_offset + 1 if stored else 0

    def batch_bytes_max(self, partition: int) -> int:
        return self.bytes_max

    def commit(self, partition: int = 0, upto: int | None = None) -> None:
        end = self._end_offset(partition) if upto is None else upto
        self.committed[partition] = end
        self._notify(partition, end, ErrorCode.NONE)

    def break_down(self, partition: int, error: ErrorCode) -> None:
        self._notify(partition, 1 << 62, error)

    def _notify(self, partition: int, end: int, error: ErrorCode) -> None:
        due = [each for each in self._waiting if each[0] == partition and each[1] <= end]
        self._waiting = [each for each in self._waiting if each not in due]
        for _, _, callback in due:
            callback(error)


class FakeLease:
    """A lease that a test ends."""

    def __init__(self) -> None:
        self.held = True

    def holds(self) -> bool:
        return self.held


class Words:
    """A state machine that counts words and records its notifications."""

    def __init__(self, partition: int, leader_epoch: int, timers: Timers) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.timers = timers
        self.counts: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.stamps: list[Stamp] = []
        self.events: list[str] = []
        self.images: list[MetadataImage] = []

    def replay(self, record: LogRecord, stamp: Stamp) -> None:
        assert isinstance(record.key, WordKey)
        self.stamps.append(stamp)
        counts = self.counts if stamp.producer_id < 0 else self.pending.setdefault(stamp.producer_id, {})
        if record.key.word == "poison":
            raise RuntimeError("poison")
        if record.value is None:
            counts.pop(record.key.word, None)
        else:
            assert isinstance(record.value, WordValue)
            counts[record.key.word] = record.value.count

    def replay_marker(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        counts = self.pending.pop(producer_id, {})
        if committed:
            self.counts.update(counts)

    def on_loaded(self, image: MetadataImage) -> None:
        self.events.append("loaded")
        self.images.append(image)

    def on_unloaded(self) -> None:
        self.events.append("unloaded")

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.images.append(image)


def word(text: str, count: int | None = 1, version: int = 1) -> LogRecord:
    """A record of that word; without a count its tombstone."""
    return LogRecord(WordKey(word=text), None if count is None else WordValue(count=count), version)


def say(text: str, count: int = 1) -> Callable[[Words], Decision[str]]:
    """An operation that appends one word and responds with it."""
    return lambda machine: Decision(text, [word(text, count)])


class Bench:
    """A runtime with its log, clock and scheduler."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.log = log or MemoryLog()
        self.lease = FakeLease()
        self.machines: list[Words] = []
        self.reported: list[BaseException] = []
        self.runtime: Runtime[Words] = Runtime(
            "__words",
            log=self.log,
            make=self._make,
            table=TABLE,
            clock=self.clock,
            scheduler=self.scheduler,
            lease=self.lease,
            write_timeout_ms=5_000,
            report=self.reported.append,
        )

    @property
    def machine(self) -> Words:
        return self.machines[-1]

    def _make(self, partition: int, leader_epoch: int, timers: Timers) -> Words:
        self.machines.append(Words(partition, leader_epoch, timers))
        return self.machines[-1]

    def serve(self, partition: int = 0, epoch: int = 0) -> Words:
        """Elect and load."""
        self.runtime.elect(partition, epoch)
        self.scheduler.run()
        assert self.runtime.is_active(partition)
        return self.machine
