"""What clients saw, and whether a log could have shown it to them.

A history is filled by producers (sent, then acknowledged, refused or left unknown) and by consumers
(assigned, then read). Values must be unique in one history: they are how a record is recognised. The log
itself gives the order of versions, so checking is linear in the number of events.

Anomalies, named as in the literature on testing Kafka-like systems:

- lost write: acknowledged, yet missing from a read of the whole partition;
- duplicate: one value at two offsets;
- inconsistent offset: one offset with two values, between reads or between an acknowledgement and a read;
- phantom read: a value nobody sent;
- aborted read: a value whose sender was told that it is not in the log;
- non-monotonic poll, poll skip: one consumer, between two assignments, went back or jumped over an offset;
- non-monotonic send: records of one producer in one partition are in another order than they were sent.

A record whose outcome stayed unknown (the producer gave up waiting) may be in the log or not, but at most
once. One history belongs to one thread; merge several with `extend`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.base.ids import TopicPartition

Value = bytes


class Kind(StrEnum):
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
    """Events of one run. Offsets are what the broker said; nothing is checked before `anomalies` is asked."""

    _sent: dict[Value, tuple[str, int]] = field(default_factory=dict)
    _acknowledged: dict[Value, tuple[TopicPartition, int]] = field(default_factory=dict)
    _refused: set[Value] = field(default_factory=set)
    _reads: dict[str, list[_Read | None]] = field(default_factory=dict)

    def sent(self, producer: str, value: Value) -> None:
        """The producer was given the record; the order of these calls is the order that must be kept."""
        if value in self._sent:
            raise ValueError(f"{value!r} was sent before: values must be unique")
        self._sent[value] = (producer, len(self._sent))

    def acknowledged(self, value: Value, partition: TopicPartition, offset: int) -> None:
        self._acknowledged[value] = (partition, offset)

    def refused(self, value: Value) -> None:
        """The producer was told for certain that the record is not in the log."""
        self._refused.add(value)

    def assigned(self, consumer: str) -> None:
        """The consumer was placed anew: what it reads next need not follow what it read before."""
        self._reads.setdefault(consumer, []).append(None)

    def read(self, consumer: str, partition: TopicPartition, offset: int, value: Value) -> None:
        self._reads.setdefault(consumer, []).append(_Read(partition, offset, value))

    def extend(self, other: History) -> None:
        """Takes in the events of another thread. Order between two producers does not matter."""
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
        """Everything that no correct log could have shown.

        `read_to_end`: some consumer read each partition from its start to its end after all was over, so that
        an acknowledged record nobody read is lost and not merely unread.
        """
        log, found = self._observed_log()
        found += self._polls()
        found += self._unsound_values(log)
        found += self._order(log)
        if read_to_end:
            found += self._lost(log)
        return found

    def _observed_log(self) -> tuple[dict[TopicPartition, dict[int, Value]], list[Anomaly]]:
        """The value at each offset that somebody saw, and the offsets at which two were seen."""
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
            place: dict[TopicPartition, int] = {}
            for read in reads:
                if read is None:
                    place.clear()
                    continue
                last = place.get(read.partition)
                place[read.partition] = read.offset
                if last is None or read.offset == last + 1:
                    continue
                kind = Kind.POLL_SKIP if read.offset > last else Kind.NON_MONOTONIC_POLL
                yield Anomaly(kind, read.partition, f"{consumer} read offset {read.offset} after {last}")

    def _unsound_values(self, log: dict[TopicPartition, dict[int, Value]]) -> Iterator[Anomaly]:
        places: dict[Value, tuple[TopicPartition, int]] = {}
        for partition, values in log.items():
            for offset, value in values.items():
                if value not in self._sent:
                    yield Anomaly(
                        Kind.PHANTOM_READ, partition, f"{value!r} at offset {offset} was never sent"
                    )
                if value in self._refused:
                    yield Anomaly(Kind.ABORTED_READ, partition, f"{value!r} at offset {offset} was refused")
                if value in places:
                    other, first = places[value]
                    detail = (
                        f"{value!r} is at offset {first} of {other} and at offset {offset} of {partition}"
                    )
                    yield Anomaly(Kind.DUPLICATE, partition, detail)
                places.setdefault(value, (partition, offset))

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
                detail = f"{value!r} was acknowledged at offset {offset} and is not there"
                yield Anomaly(Kind.LOST_WRITE, partition, detail)
