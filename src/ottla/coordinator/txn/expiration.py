"""Periodic tasks: aborts transactions whose timeout has passed, and removes expired transactional ids.

Each task checks all ids at an interval. If many are due, it handles a part, so that the records fit into a batch and
other requests are not delayed, and runs again when they are committed. A transaction in two-phase commit has no
timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.timers import TimerOperation, Timers
from ottla.coordinator.txn.end_transaction import EndTransaction
from ottla.coordinator.txn.table import TxnTable
from ottla.coordinator.txn.transaction import Transaction

RECORDS_AT_ONCE: Final = 100
PARTITIONS_AT_ONCE: Final = 2_000
"""Of all transactions of one decision; with the longest topic names they take about 500 KB. A single transaction may
have more."""

ABORT_TIMED_OUT: Final = "abort timed-out transactions"
FORGET_EXPIRED: Final = "forget expired transactional ids"


class TransactionExpiration:
    """The two periodic tasks of a shard."""

    def __init__(self, table: TxnTable, timers: Timers, end_transaction: EndTransaction) -> None:
        self._table = table
        self._timers = timers
        self._end_transaction = end_transaction

    def start(self) -> None:
        settings = self._table.settings
        self._timers.schedule(ABORT_TIMED_OUT, settings.timeout_check_interval_ms, self._abort_timed_out)
        self._timers.schedule(FORGET_EXPIRED, settings.id_expiration_check_interval_ms, self._forget_expired)

    def _abort_timed_out(self) -> Decision[None]:
        self._timers.schedule(
            ABORT_TIMED_OUT, self._table.settings.timeout_check_interval_ms, self._abort_timed_out
        )
        due, is_all = self._timed_out()
        records = [self._end_transaction.fence(name, transaction) for name, transaction in due.items()]
        send_markers = self._end_transaction.send_markers_once_prepared(*due)
        if is_all:
            return Decision(None, records, send_markers)
        run_again = self._run_again(ABORT_TIMED_OUT, self._abort_timed_out)

        def on_complete(error: ErrorCode) -> None:
            send_markers(error)
            run_again(error)

        return Decision(None, records, on_complete)

    def _timed_out(self) -> tuple[dict[str, Transaction], bool]:
        """The first transactions whose timeout has passed, and whether there are no others."""
        now_ms = self._table.clock.now_ms()
        due: dict[str, Transaction] = {}
        partitions = 0
        for name, transaction in self._table.items():
            if not transaction.timed_out(now_ms):
                continue
            partitions += len(transaction.partitions)
            if len(due) == RECORDS_AT_ONCE or (due and partitions > PARTITIONS_AT_ONCE):
                return due, False
            due[name] = transaction
        return due, True

    def _forget_expired(self) -> Decision[None]:
        settings, now_ms = self._table.settings, self._table.clock.now_ms()
        self._timers.schedule(FORGET_EXPIRED, settings.id_expiration_check_interval_ms, self._forget_expired)
        unused = (
            name for name, each in self._table.items() if each.expired(now_ms, settings.id_expiration_ms)
        )
        due = list(islice(unused, RECORDS_AT_ONCE))
        run_again = self._run_again(FORGET_EXPIRED, self._forget_expired)
        records = [self._table.tombstone(name) for name in due]
        return Decision(None, records, run_again if len(due) == RECORDS_AT_ONCE else None)

    def _run_again(self, name: str, task: TimerOperation) -> Callable[[ErrorCode], None]:
        """The `on_complete` callback that runs a task at once if its last part is committed."""

        def on_complete(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._timers.schedule(name, 0, task)

        return on_complete
