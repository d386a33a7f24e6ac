"""Periodic tasks: aborts transactions whose timeout has passed, and removes expired transactional ids.

Each task checks all ids at an interval. If many are due, it handles a part and runs again at once, so that the
records fit into a batch and other requests are not delayed. A transaction in two-phase commit has no timeout.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.txn.end_transaction import EndTransaction
from ottla.coordinator.txn.table import TxnTable

RECORDS_AT_ONCE: Final = 100

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
        now_ms = self._table.clock.now_ms()
        late = (each for each in self._table.items() if each[1].timed_out(now_ms))
        due = dict(islice(late, RECORDS_AT_ONCE))
        pause_ms = self._table.settings.timeout_check_interval_ms if len(due) < RECORDS_AT_ONCE else 0
        self._timers.schedule(ABORT_TIMED_OUT, pause_ms, self._abort_timed_out)
        records = [self._end_transaction.fence(name, transaction) for name, transaction in due.items()]
        return Decision(None, records, self._end_transaction.send_markers_once_prepared(*due))

    def _forget_expired(self) -> Decision[None]:
        settings, now_ms = self._table.settings, self._table.clock.now_ms()
        unused = (
            name for name, each in self._table.items() if each.expired(now_ms, settings.id_expiration_ms)
        )
        due = list(islice(unused, RECORDS_AT_ONCE))
        pause_ms = settings.id_expiration_check_interval_ms if len(due) < RECORDS_AT_ONCE else 0
        self._timers.schedule(FORGET_EXPIRED, pause_ms, self._forget_expired)
        return Decision(None, [self._table.tombstone(name) for name in due])
