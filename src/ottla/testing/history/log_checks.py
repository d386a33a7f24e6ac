"""Checks of the log: what is lost, duplicated, reordered or skipped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from ottla.base.ids import TopicPartition
from ottla.testing.history.events import Anomaly, Kind, Read, Value
from ottla.testing.history.observations import Observations, ObservedLog


class LogChecks:
    """The anomalies of a log that do not depend on the order of transactions."""

    def __init__(self, seen: Observations, log: ObservedLog) -> None:
        self._seen = seen
        self._log = log

    def anomalies(self, *, read_to_end: bool) -> Iterator[Anomaly]:
        yield from self._polls()
        yield from self._wrong_values()
        for partition in self._log.values:
            yield from self._order(partition)
        if read_to_end:
            yield from self._lost()

    # What one consumer read

    def _polls(self) -> Iterator[Anomaly]:
        for consumer, reads in self._seen.reads.items():
            positions: dict[TopicPartition, Read] = {}
            for read in reads:
                if read is None:
                    positions.clear()
                    continue
                last = positions.get(read.partition)
                positions[read.partition] = read
                if last is not None:
                    yield from self._poll(consumer, last, read)

    def _poll(self, consumer: str, last: Read, read: Read) -> Iterator[Anomaly]:
        internal = read.transaction is not None and read.transaction == last.transaction
        if read.offset <= last.offset:
            kind = Kind.INTERNAL_NON_MONOTONIC_POLL if internal else Kind.NON_MONOTONIC_POLL
        elif read.offset > last.offset + 1 and self._skipped(consumer, last, read):
            kind = Kind.INTERNAL_POLL_SKIP if internal else Kind.POLL_SKIP
        else:
            return
        yield Anomaly(kind, read.partition, f"{consumer} read offset {read.offset} after {last.offset}")

    def _skipped(self, consumer: str, last: Read, read: Read) -> bool:
        """Whether there is a record between two reads that the consumer should have read."""
        if read.partition not in self._log.transactional:
            return True
        offsets = self._offsets[read.partition]
        values = self._log.values[read.partition]
        first = bisect_right(offsets, last.offset)
        between = (values[offset] for offset in offsets[first : bisect_right(offsets, read.offset - 1)])
        return any(self._expected(consumer, value) for value in between)

    def _expected(self, consumer: str, value: Value) -> bool:
        """Whether a consumer that passes a value must read it."""
        transaction = self._seen.transaction_of(value)
        if transaction is None or consumer not in self._seen.committed_readers:
            return True
        return transaction.name in self._log.committed

    @cached_property
    def _offsets(self) -> dict[TopicPartition, list[int]]:
        return {partition: sorted(values) for partition, values in self._log.values.items()}

    # What the log contains

    def _wrong_values(self) -> Iterator[Anomaly]:
        seen = self._seen
        found_at: dict[Value, tuple[TopicPartition, int]] = {}
        for partition, values in self._log.values.items():
            for offset, value in values.items():
                if value not in seen.sends:
                    detail = f"{value!r} at offset {offset} was never sent"
                    yield Anomaly(Kind.PHANTOM_READ, partition, detail)
                if value in seen.refused:
                    yield Anomaly(Kind.ABORTED_READ, partition, f"{value!r} at offset {offset} was refused")
                if value in found_at:
                    other, first = found_at[value]
                    detail = (
                        f"{value!r} is at offset {first} of {other} and at offset {offset} of {partition}"
                    )
                    yield Anomaly(Kind.DUPLICATE, partition, detail)
                found_at.setdefault(value, (partition, offset))

    def _order(self, partition: TopicPartition) -> Iterator[Anomaly]:
        """Records of one producer that are not in the order in which they were sent."""
        latest: dict[str, tuple[int, Value]] = {}
        for offset, value in self._log.in_order(partition):
            send = self._seen.sends.get(value)
            if send is None:
                continue
            before, other = latest.get(send.producer, (-1, b""))
            if send.number < before:
                internal = (
                    send.transaction is not None and send.transaction == self._seen.sends[other].transaction
                )
                kind = Kind.INTERNAL_NON_MONOTONIC_SEND if internal else Kind.NON_MONOTONIC_SEND
                detail = f"{value!r} of {send.producer} at offset {offset} was sent before {other!r}"
                yield Anomaly(kind, partition, detail)
            latest[send.producer] = max((before, other), (send.number, value))

    def _lost(self) -> Iterator[Anomaly]:
        seen = self._seen
        read = {value for values in self._log.values.values() for value in values.values()}
        for value, (partition, offset) in seen.acknowledged.items():
            transaction = seen.transaction_of(value)
            if transaction is None:
                present = value in read
            elif transaction.committed:
                present = value in (self._log.visible if seen.committed_readers else read)
            else:
                continue
            if not present:
                detail = f"{value!r} was acknowledged at offset {offset} and is not in the log"
                yield Anomaly(Kind.LOST_WRITE, partition, detail)
