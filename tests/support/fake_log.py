"""Logs in memory behind the calls of `client.raw.Cluster` that readers of records use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.raw import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    NO_OFFSET,
    Fetched,
    OffsetOutOfRange,
    UnknownTopic,
)
from ottla.records.builder import NewRecord, build_batch
from ottla.records.columns import end_of
from ottla.records.compression import Codec

NOW_MS = 1_794_909_600_000


class FakeLog:
    """Batches of one partition; offsets may be skipped."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.end = start
        self.batches: list[tuple[int, int, bytes]] = []
        self.times: list[tuple[int, int]] = []

    def append(self, records: Sequence[NewRecord], codec: Codec = Codec.NONE) -> int:
        """Append one batch; return its first offset."""
        base = self.end
        batch = build_batch(records, base_offset=base, codec=codec)
        self.batches.append((base, base + len(records) - 1, batch))
        self.times += [(record.timestamp, base + index) for index, record in enumerate(records)]
        self.end += len(records)
        return base

    def skip(self, offsets: int) -> None:
        """Offsets without records."""
        self.end += offsets

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.batches = [one for one in self.batches if one[1] >= offset]

    def read(self, offset: int, max_bytes: int) -> bytes:
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange("fetching", ErrorCode.OFFSET_OUT_OF_RANGE)
        found = b""
        for _, last, batch in self.batches:
            if last >= offset:
                if found and len(found) + len(batch) > max_bytes:
                    # As brokers do: the last batch is cut off.
                    return found + batch[: max_bytes - len(found)]
                found += batch
        return found

    def at(self, time: int) -> tuple[int, int]:
        if time == EARLIEST:
            return self.start, -1
        if time == LATEST:
            return self.end, -1
        known = [each for each in self.times if each[1] >= self.start]
        if time == MAX_TIMESTAMP:
            stamp, offset = max(known, default=(-1, NO_OFFSET))
        else:
            later = [each for each in known if each[0] >= time]
            stamp, offset = min(later, key=lambda each: each[1], default=(-1, NO_OFFSET))
        return offset, stamp


class FakeCluster:
    """A cluster of logs."""

    def __init__(self, logs: Mapping[TopicPartition, FakeLog]) -> None:
        self.logs = dict(logs)
        self.fetched: list[tuple[TopicPartition, int]] = []

    def topic(self, name: str) -> Any:
        partitions = {tp.partition: None for tp in self.logs if tp.topic == name}
        if not partitions:
            raise UnknownTopic(f"topic {name}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return SimpleNamespace(partitions=partitions)

    def topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.topic(name) for name in names}

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        return {tp: self.logs[tp].at(time) for tp, time in wanted.items()}

    def stream(
        self,
        tp: TopicPartition,
        offset: int,
        end_offset: int,
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        committed: bool = False,
    ) -> Iterator[tuple[int, Fetched]]:
        log = self.logs[tp]
        while offset < end_offset:
            self.fetched.append((tp, offset))
            data = log.read(offset, max_bytes)
            yield offset, Fetched(memoryview(data), log.end, log.end, log.start, [])
            following = end_of(data, offset)
            if following == offset:
                return
            offset = following


class FakeSession:
    """A session on such a cluster, at a fixed time."""

    def __init__(self, logs: Mapping[TopicPartition, FakeLog]) -> None:
        self.cluster: Any = FakeCluster(logs)
        self.clock = SimpleNamespace(now_ms=lambda: NOW_MS)


def session_of(*logs: FakeLog, topic: str = "t") -> Any:
    return FakeSession({TopicPartition(topic, index): log for index, log in enumerate(logs)})


def numbered(numbers: Collection[int], step_ms: int = 1000) -> list[NewRecord]:
    """Records whose value is their number, one each `step_ms`."""
    return [NewRecord(f"k{one}".encode(), str(one).encode(), (), NOW_MS + one * step_ms) for one in numbers]
