"""Checker of `__transaction_state`: transactional ids follow the state machine, and epochs only increase."""

from __future__ import annotations

from typing import Final

from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.codec import RecordTable
from ottla.coordinator.txn import records as keys
from ottla.records.batch import BatchHeader
from ottla.records.record import Record
from ottla.testing.sim.kernel.events import Kernel

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
_NAMES: Final = ("empty", "ongoing", "prepare commit", "prepare abort", "complete commit", "complete abort")
_TABLE: Final = RecordTable(vars(keys).values())
# What may follow a state in the log. Deliberately independent of the coordinator's table, which it checks.
_NEXT: Final = {
    EMPTY: {EMPTY, ONGOING, PREPARE_ABORT},
    ONGOING: {ONGOING, PREPARE_COMMIT, PREPARE_ABORT},
    PREPARE_COMMIT: {COMPLETE_COMMIT},
    PREPARE_ABORT: {COMPLETE_ABORT},
    COMPLETE_COMMIT: {EMPTY, ONGOING, PREPARE_ABORT},
    COMPLETE_ABORT: {EMPTY, ONGOING, PREPARE_ABORT},
}


class TransactionStateChecker:
    """Last state of every transactional id in the log."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.last: dict[str, keys.TransactionLogValue] = {}

    def data(self, tp: TopicPartition, header: BatchHeader, records: list[Record]) -> None:
        for record in records:
            found = _TABLE.decode(record.key, record.value)
            if found is None or not isinstance(found.key, keys.TransactionLogKey):
                self._kernel.violated("all records of transactions can be decoded", f"{record.key!r}")
            elif isinstance(found.value, keys.TransactionLogValue):
                self._moved(found.key.transactional_id, found.value)
            else:
                self.last.pop(found.key.transactional_id, None)

    def is_committed(self, transactional_id: str) -> bool:
        """Whether the latest transaction is committed. Markers may be missing in its partitions."""
        last = self.last.get(transactional_id)
        return last is not None and last.transaction_status in (PREPARE_COMMIT, COMPLETE_COMMIT)

    def marker(self, tp: TopicPartition, header: BatchHeader, *, committed: bool) -> None:
        self._kernel.violated("__transaction_state contains no transactional records", str(tp))

    def _moved(self, transactional_id: str, value: keys.TransactionLogValue) -> None:
        before = self.last.get(transactional_id)
        self.last[transactional_id] = value
        status = value.transaction_status
        if status == COMPLETE_COMMIT:
            self._kernel.count("transactions committed")
        elif status == COMPLETE_ABORT:
            self._kernel.count("transactions aborted")
        if before is None:
            return
        old = before.transaction_status
        detail = f"{transactional_id}: {_NAMES[old]} ({before.producer_id}, {before.producer_epoch}) to "
        detail += f"{_NAMES[status]} ({value.producer_id}, {value.producer_epoch})"
        self._kernel.check(status in _NEXT[old], "T4 a transaction follows its state machine", detail)
        if before.producer_id == value.producer_id:
            self._kernel.check(
                value.producer_epoch >= before.producer_epoch,
                "T3 the epoch of a producer never decreases",
                detail,
            )
