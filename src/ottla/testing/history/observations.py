"""State of a history, and what follows from it directly: the observed log, and which transactions are committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ottla.base.ids import TopicPartition
from ottla.testing.history.events import Anomaly, Kind, Read, Send, Transaction, Value


@dataclass
class Observations:
    """All events of a history."""

    sends: dict[Value, Send] = field(default_factory=dict)
    acknowledged: dict[Value, tuple[TopicPartition, int]] = field(default_factory=dict)
    refused: set[Value] = field(default_factory=set)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    committed_readers: set[str] = field(default_factory=set)
    reads: dict[str, list[Read | None]] = field(default_factory=dict)
    """The reads of each consumer, in order. None: a new assignment."""

    def transaction_of(self, value: Value) -> Transaction | None:
        """The transaction in which a value was sent."""
        send = self.sends.get(value)
        return None if send is None or send.transaction is None else self.transactions[send.transaction]

    def all_reads(self) -> Iterator[tuple[str, Read]]:
        for consumer, reads in self.reads.items():
            for read in reads:
                if read is not None:
                    yield consumer, read

    def committed_values(self) -> set[Value]:
        """What readers of committed records have read."""
        return {read.value for consumer, read in self.all_reads() if consumer in self.committed_readers}

    def observed_log(self) -> tuple[ObservedLog, list[Anomaly]]:
        """The value at each offset that was read, and the offsets with two different values."""
        log = ObservedLog(self)
        found = []
        for _, read in self.all_reads():
            known = log.values.setdefault(read.partition, {}).setdefault(read.offset, read.value)
            if known != read.value:
                detail = f"offset {read.offset} was read as {known!r} and as {read.value!r}"
                found.append(Anomaly(Kind.INCONSISTENT_OFFSET, read.partition, detail))
        for value, (partition, offset) in self.acknowledged.items():
            known = log.values.get(partition, {}).get(offset, value)
            if known != value:
                detail = f"offset {offset} was acknowledged for {value!r} and read as {known!r}"
                found.append(Anomaly(Kind.INCONSISTENT_OFFSET, partition, detail))
        return log, found


class ObservedLog:
    """The values at the offsets of each partition, as consumers have read them."""

    def __init__(self, seen: Observations) -> None:
        self._seen = seen
        self.values: dict[TopicPartition, dict[int, Value]] = {}

    @cached_property
    def visible(self) -> set[Value]:
        """What readers of committed records have read."""
        return self._seen.committed_values()

    @cached_property
    def committed(self) -> set[str]:
        """The transactions that are committed: reported, or visible to readers of committed records."""
        reported = {name for name, each in self._seen.transactions.items() if each.committed}
        sends = self._seen.sends
        read = {sends[value].transaction for value in self.visible if value in sends}
        return reported | {name for name in read if name is not None}

    @cached_property
    def transactional(self) -> set[TopicPartition]:
        """The partitions with records of transactions: markers and aborted records make gaps in what is read."""
        seen = self._seen
        found = {
            partition for value, (partition, _) in seen.acknowledged.items() if seen.transaction_of(value)
        }
        for partition, values in self.values.items():
            if partition not in found and any(map(seen.transaction_of, values.values())):
                found.add(partition)
        return found

    def in_order(self, partition: TopicPartition) -> Iterator[tuple[int, Value]]:
        """Offsets and values of a partition, in the order of offsets."""
        return iter(sorted(self.values[partition].items()))
