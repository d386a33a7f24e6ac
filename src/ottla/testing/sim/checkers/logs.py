"""Checker of logs: notifies other checkers of every committed batch, and checks that committed batches stay.

After each event of a node, for every partition:

- log start <= last stable offset <= high watermark <= log end;
- neither the high watermark nor the last stable offset decreases, even after a crash;
- the last stable offset is the start of the earliest undecided transaction, or the high watermark.

Listeners are notified of each batch below the high watermark once, in order. After each start of a broker the logs are
read again: every batch that was ever committed must still be there, byte for byte. A compacted topic may lose batches;
`checkers.replay` compares what its records mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.records.control import read_end_txn
from ottla.records.record import Record, iter_records
from ottla.replication.partition import Partition
from ottla.storage.log.log import Log
from ottla.testing.sim.kernel.events import Kernel


class Listener(Protocol):
    """Is notified of every batch that is committed in the partitions of some topics."""

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None: ...

    def marker(self, tp: TopicPartition, header: BatchHeader, *, committed: bool) -> None: ...


class _PartitionModel:
    """Committed state of one partition."""

    __slots__ = ("batches", "high_watermark", "last_stable", "next_offset", "open")

    def __init__(self) -> None:
        self.high_watermark = 0
        self.last_stable = 0
        self.next_offset = 0
        self.batches: dict[int, int] = {}  # base offset -> crc
        self.open: dict[int, int] = {}  # producer id -> first offset of its undecided transaction


class LogChecker:
    """Follows the logs of all partitions."""

    def __init__(self, kernel: Kernel, listener_of: Callable[[str], Listener]) -> None:
        self._kernel = kernel
        self._listener_of = listener_of
        self._models: dict[TopicPartition, _PartitionModel] = {}

    def high_watermark(self, tp: TopicPartition) -> int:
        detail = self._models.get(tp)
        return 0 if detail is None else detail.high_watermark

    def undecided(self) -> dict[TopicPartition, list[int]]:
        """The producers with open transactions, by partition."""
        return {tp: sorted(detail.open) for tp, detail in self._models.items() if detail.open}

    def check(self, partition: Partition) -> None:
        """Check a partition that may have changed."""
        log = partition.log
        detail = self._models.get(log.topic_partition)
        if detail is None:
            detail = self._models[log.topic_partition] = _PartitionModel()
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        if high_watermark == detail.high_watermark and last_stable == detail.last_stable:
            return
        check = self._kernel.check
        tp = str(log.topic_partition)
        order = (log.log_start_offset, last_stable, high_watermark, log.log_end_offset)
        check(order == tuple(sorted(order)), "R10 start <= stable <= high watermark <= end", f"{tp}: {order}")
        if high_watermark < detail.high_watermark:
            self._kernel.violated(
                "R3 the high watermark never decreases",
                f"{tp}: {detail.high_watermark} to {high_watermark}",
            )
            return
        self._follow(log, detail)
        check(
            last_stable >= detail.last_stable,
            "T5 the last stable offset never decreases",
            f"{tp}: {detail.last_stable} to {last_stable}",
        )
        expected = min([*detail.open.values(), high_watermark])
        check(
            last_stable == expected,
            "T5 the last stable offset is the start of the earliest open transaction",
            f"{tp}: {last_stable} instead of {expected}; open {detail.open}",
        )
        detail.high_watermark, detail.last_stable = high_watermark, last_stable

    def _follow(self, log: Log, detail: _PartitionModel) -> None:
        # An offline log cannot be read, but the checker must see what it committed before its disk failed.
        offline, log.offline = log.offline, False
        for header, data in log.batches(detail.next_offset, upto=log.high_watermark):
            if header.base_offset < detail.next_offset:
                continue
            self._apply(log.topic_partition, header, data, detail)
            detail.batches[header.base_offset] = header.crc
            detail.next_offset = header.last_offset + 1
        log.offline = offline

    def _apply(
        self, tp: TopicPartition, header: BatchHeader, data: memoryview, detail: _PartitionModel
    ) -> None:
        listener = self._listener_of(tp.topic)
        records = list(iter_records(data, header))
        if not header.is_control:
            if header.is_transactional:
                detail.open.setdefault(header.producer_id, header.base_offset)
            listener.data(tp, header, records)
            return
        marker = read_end_txn(records[0].key, records[0].value)
        if marker is not None:
            # Notify the listener first: it determines which open records this marker ends.
            listener.marker(tp, header, committed=marker.committed)
            detail.open.pop(header.producer_id, None)

    def verify(self, log: Log) -> None:
        """Check after a start that everything that was committed is still in the log."""
        detail = self._models.get(log.topic_partition)
        if detail is None:
            return
        tp = log.topic_partition
        self._kernel.check(
            log.log_end_offset >= detail.high_watermark,
            "R1 no committed record is lost",
            f"{tp} ends at {log.log_end_offset}, {detail.high_watermark} was committed",
        )
        if log.config.compacted:
            return
        found = {
            header.base_offset: header.crc
            for header, _ in log.batches(log.log_start_offset, upto=log.log_end_offset)
        }
        for base_offset, crc in detail.batches.items():
            if found.get(base_offset) != crc:
                self._kernel.violated(
                    "R2 what is committed never changes", f"{tp}: the batch at {base_offset}"
                )
                return
