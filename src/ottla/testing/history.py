"""History of what clients observed, and the anomalies in it that no correct log allows.

Producers record what they send and whether it was acknowledged or refused; consumers record their assignments and what
they read. The clients may be simulated or real: a history needs nothing but unique values, by which records are
recognised. The log itself gives the order of versions, so that checking takes linear time.

Anomalies, named as in the literature on testing Kafka-like systems:

- lost write: acknowledged, but missing from a read of the whole partition;
- duplicate: one value at two offsets;
- inconsistent offset: one offset with two values, between reads or between an acknowledgement and a read;
- phantom read: a value that no producer sent;
- aborted read: a value that was refused for certain;
- non-monotonic poll, poll skip: one consumer, between two assignments, went back or skipped an offset;
- non-monotonic send: records of one producer in one partition are in a different order than they were sent.

A record without acknowledgement or refusal (the producer timed out) may be in the log or not, but at most once. A
history belongs to one thread; merge several with `extend`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.base.ids import TopicPartition

Value = bytes


class Kind(StrEnum):
    """Classes of anomalies."""

    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSET = "inconsistent offset"
    PHANTOM_READ = "phantom read"
    ABORTED_READ = "aborted read"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    POLL_SKIP = "poll skip"
    NON_MONOTONIC_SEND = "non-monotonic send"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An observation that no correct log allows."""

    kind: Kind
    partition: TopicPartition
    detail: str


@dataclass(slots=True)
class _Read:
    partition: TopicPartition
    offset: int
    value: Value


@dataclass(slots=True)
class History:
    """What the clients of one run observed. Offsets are those in the broker's responses."""

    _sent: dict[Value, tuple[str, int]] = field(default_factory=dict)
    _acknowledged: dict[Value, tuple[TopicPartition, int]] = field(default_factory=dict)
    _refused: set[Value] = field(default_factory=set)
    _reads: dict[str, list[_Read | None]] = field(default_factory=dict)

    def sent(self, producer: str, value: Value) -> None:
        """Record that a producer starts to send a value. The order of these calls must be the order in the log."""
        if value in self._sent:
            raise ValueError(f"{value!r} was sent before: values must be unique")
        self._sent[value] = (producer, len(self._sent))

    def acknowledged(self, value: Value, partition: TopicPartition, offset: int) -> None:
        """Record that the broker has acknowledged a value."""
        self._acknowledged[value] = (partition, offset)

    def refused(self, value: Value) -> None:
        """Record that a value is certainly not in the log, according to the response."""
        self._refused.add(value)

    def assigned(self, consumer: str) -> None:
        """Record that a consumer starts at new positions: its next read need not follow its last one."""
        self._reads.setdefault(consumer, []).append(None)

    def read(self, consumer: str, partition: TopicPartition, offset: int, value: Value) -> None:
        """Record that a consumer has read a value."""
        self._reads.setdefault(consumer, []).append(_Read(partition, offset, value))

    def extend(self, other: History) -> None:
        """Add the events of another history. The order between two producers does not matter."""
        for value, (producer, _) in other._sent.items():
            self.sent(producer, value)
        self._acknowledged.update(other._acknowledged)
        self._refused.update(other._refused)
        for consumer, reads in other._reads.items():
            self._reads.setdefault(consumer, []).extend(reads)

    @property
    def sent_count(self) -> int:
        return len(self._sent)

    @property
    def acknowledged_count(self) -> int:
        return len(self._acknowledged)

    def anomalies(self, *, read_to_end: bool = True) -> list[Anomaly]:
        """Everything that no correct log allows.

        `read_to_end`: after all writes, some consumer has read each partition from its start to its end, so that an
        acknowledged record that no consumer has read is lost, and not just unread.
        """
        log, found = self._observed_log()
        found += self._polls()
        found += self._wrong_values(log)
        found += self._order(log)
        if read_to_end:
            found += self._lost(log)
        return found

    def _observed_log(self) -> tuple[dict[TopicPartition, dict[int, Value]], list[Anomaly]]:
        """The value at each offset that was read, and the offsets with two different values."""
        log: dict[TopicPartition, dict[int, Value]] = {}
        found = []
        for reads in self._reads.values():
            for read in reads:
                if read is None:
                    continue
                known = log.setdefault(read.partition, {}).setdefault(read.offset, read.value)
                if known != read.value:
                    detail = f"offset {read.offset} was read as {known!r} and as {read.value!r}"
                    found.append(Anomaly(Kind.INCONSISTENT_OFFSET, read.partition, detail))
        for value, (partition, offset) in self._acknowledged.items():
            known = log.get(partition, {}).get(offset, value)
            if known != value:
                detail = f"offset {offset} was acknowledged for {value!r} and read as {known!r}"
                found.append(Anomaly(Kind.INCONSISTENT_OFFSET, partition, detail))
        return log, found

    def _polls(self) -> Iterator[Anomaly]:
        for consumer, reads in self._reads.items():
            positions: dict[TopicPartition, int] = {}
            for read in reads:
                if read is None:
                    positions.clear()
                    continue
                last = positions.get(read.partition)
                positions[read.partition] = read.offset
                if last is None or read.offset == last + 1:
                    continue
                kind = Kind.POLL_SKIP if read.offset > last else Kind.NON_MONOTONIC_POLL
                yield Anomaly(kind, read.partition, f"{consumer} read offset {read.offset} after {last}")

    def _wrong_values(self, log: dict[TopicPartition, dict[int, Value]]) -> Iterator[Anomaly]:
        found_at: dict[Value, tuple[TopicPartition, int]] = {}
        for partition, values in log.items():
            for offset, value in values.items():
                if value not in self._sent:
                    yield Anomaly(
                        Kind.PHANTOM_READ, partition, f"{value!r} at offset {offset} was never sent"
                    )
                if value in self._refused:
                    yield Anomaly(Kind.ABORTED_READ, partition, f"{value!r} at offset {offset} was refused")
                if value in found_at:
                    other, first = found_at[value]
                    detail = (
                        f"{value!r} is at offset {first} of {other} and at offset {offset} of {partition}"
                    )
                    yield Anomaly(Kind.DUPLICATE, partition, detail)
                found_at.setdefault(value, (partition, offset))

    def _order(self, log: dict[TopicPartition, dict[int, Value]]) -> Iterator[Anomaly]:
        for partition, values in log.items():
            latest: dict[str, tuple[int, Value]] = {}
            for offset in sorted(values):
                value = values[offset]
                if value not in self._sent:
                    continue
                producer, number = self._sent[value]
                before, other = latest.get(producer, (-1, b""))
                if number < before:
                    detail = f"{value!r} of {producer} at offset {offset} was sent before {other!r}"
                    yield Anomaly(Kind.NON_MONOTONIC_SEND, partition, detail)
                latest[producer] = max((before, other), (number, value))

    def _lost(self, log: dict[TopicPartition, dict[int, Value]]) -> Iterator[Anomaly]:
        seen = {value for values in log.values() for value in values.values()}
        for value, (partition, offset) in self._acknowledged.items():
            if value not in seen:
                detail = f"{value!r} was acknowledged at offset {offset} and is not in the log"
                yield Anomaly(Kind.LOST_WRITE, partition, detail)
