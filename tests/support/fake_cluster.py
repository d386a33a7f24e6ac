"""A cluster of plain logs with the few calls of `client.raw.Cluster` that the Spark source makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw import Fetched, OffsetOutOfRange, PartitionInfo, TopicInfo, UnknownTopic
from ottla.records.batch import read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.storage.cleaning.cleaner_filter import empty_batch


class FakeClock:
    """Stands still until a test moves it."""

    seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class FakeLog:
    """Batches by their base offset; `end` may lie behind the last of them."""

    batches: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    times: list[int] = field(default_factory=list)

    def append(self, count: int, *, gap: int = 0, first_time: int = 0) -> None:
        """So many records with their offset as value, after a gap."""
        self.end += gap
        records = [
            NewRecord(None, str(self.end + number).encode(), (), first_time + number)
            for number in range(count)
        ]
        self.batches[self.end] = build_batch(records, base_offset=self.end)
        self.times += [first_time] * gap + [record.timestamp for record in records]
        self.end += count

    def compact(self, base: int) -> None:
        """Leave of a batch what brokers leave of a segment's last: its header."""
        self.batches[base] = bytes(empty_batch(read_header(self.batches[base])))


class FakeCluster:
    def __init__(self, **partitions: int) -> None:
        self.logs = {
            TopicPartition(name, number): FakeLog()
            for name, count in partitions.items()
            for number in range(count)
        }
        self.internal: set[str] = set()
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.asked: list[tuple[TopicPartition, int]] = []
        self.latest_answers: list[int] = []
        """What LATEST answers first, before the truth."""
        self.empty_answers = 0
        """So many fetches bring nothing, as above a quota."""
        self.out_of_range_answers = 0
        """So many fetches find a log that the offset is not in."""
        self.hidden: dict[str, int] = {}
        """Topics that so many answers about topics lack."""
        self.deleted_when_listed: set[str] = set()
        """Topics that go when offsets are asked for."""

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        wanted = {partition.topic for partition in self.logs} if names is None else set(names)
        for name, answers in list(self.hidden.items()):
            self.hidden[name] = answers - 1
            if answers > 0:
                wanted.discard(name)
        return {
            name: TopicInfo(
                name,
                uuid4(),
                name in self.internal,
                {tp.partition: PartitionInfo(0, 0) for tp in self.logs if tp.topic == name},
            )
            for name in wanted
            if any(tp.topic == name for tp in self.logs)
        }

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        for name in self.deleted_when_listed:
            self.delete(name)
        if not wanted.keys() <= self.logs.keys():
            raise UnknownTopic("asking for offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {tp: (self._offset(self.logs[tp], asked), -1) for tp, asked in wanted.items()}

    def delete(self, topic: str) -> None:
        self.logs = {tp: log for tp, log in self.logs.items() if tp.topic != topic}

    def _offset(self, log: FakeLog, asked: int) -> int:
        if asked == -2:
            return log.start
        if asked == -1:
            return self.latest_answers.pop(0) if self.latest_answers else log.end
        matching = (offset for offset, time in enumerate(log.times) if time >= asked and offset >= log.start)
        return next(matching, -1)

    def stream(
        self, tp: TopicPartition, offset: int, end_offset: int, *, committed: bool | None = None
    ) -> Iterator[tuple[int, Fetched]]:
        while offset < end_offset:
            self.asked.append((tp, offset))
            if tp not in self.logs:
                raise UnknownTopic("fetching", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            log = self.logs[tp]
            self.out_of_range_answers -= 1
            if self.out_of_range_answers >= 0 or not log.start <= offset <= log.end:
                raise OffsetOutOfRange("fetching", ErrorCode.OFFSET_OUT_OF_RANGE)
            holding = [
                (base, data) for base, data in sorted(log.batches.items()) if self._last(base, data) >= offset
            ]
            if self.empty_answers:
                self.empty_answers -= 1
                holding = []
            data = b"" if not holding else holding[0][1]
            yield offset, Fetched(memoryview(data), log.end, log.end, log.start, [])
            if not holding:
                return
            offset = self._last(*holding[0]) + 1

    def fetch(
        self, tp: TopicPartition, offset: int, *, max_bytes: int, max_wait_ms: int, committed: bool
    ) -> Fetched:
        return next(self.stream(tp, offset, offset + 1, committed=committed))[1]

    @staticmethod
    def _last(base: int, data: bytes) -> int:
        return base + int.from_bytes(data[23:27], "big")

    def commit_offsets(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        self.groups.setdefault(group, {}).update(positions)

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        known = self.groups.get(group, {})
        return {partition: known[partition] for partition in partitions if partition in known}
