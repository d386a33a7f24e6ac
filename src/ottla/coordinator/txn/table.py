"""The transactional ids of one shard. Only `replay` changes them.

`transition` checks a change against the transition table and returns its record; `replay` applies records.

One value exists only in memory, because the log format has no field for it: the epoch that a producer had before its
current one. With it, a request that is repeated after a lost response is distinguished from a request of a fenced
producer (KIP-360). After a reload the value is unknown and such a producer is fenced, which is safe.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.base.clock import Clock
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.txn.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.txn.settings import TxnSettings
from ottla.coordinator.txn.transaction import (
    NO_EPOCH,
    Transaction,
    from_value,
    log_value_version,
    to_record,
    to_tombstone,
)
from ottla.coordinator.txn.transitions import TRANSITIONS, TxnState
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage

TRANSACTION_VERSION = "transaction.version"


class TxnTable:
    """All transactions of a shard, and the settings and metadata that decisions need."""

    def __init__(self, clock: Clock, settings: TxnSettings) -> None:
        self.clock = clock
        self.settings = settings
        self.image: MetadataImage = EMPTY_IMAGE
        self._transactions: dict[str, Transaction] = {}
        self._last_epochs: dict[str, int] = {}

    @property
    def transaction_version(self) -> int:
        """The finalised level of the feature: 0, 1, or 2 (every end raises the epoch)."""
        return self.image.features.get(TRANSACTION_VERSION, 0)

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self._transactions[transactional_id]

    def items(self) -> Iterator[tuple[str, Transaction]]:
        """All ids in the order in which they were created."""
        return iter(self._transactions.items())

    def last_epoch(self, transactional_id: str) -> int:
        """The previous epoch, if the same producer had it; else NO_EPOCH."""
        return self._last_epochs.get(transactional_id, NO_EPOCH)

    def transition(
        self,
        transactional_id: str,
        after: Transaction,
        *,
        last_epoch: int | None = None,
        fenced: bool = False,
    ) -> LogRecord:
        """The record of a transition. `last_epoch`: the new previous epoch (None: unchanged). `fenced`: passes through
        PREPARE_EPOCH_FENCE."""
        before = self._transactions.get(transactional_id)
        state = TRANSITIONS.start if before is None else before.state
        if fenced:
            TRANSITIONS.check(state, TxnState.PREPARE_EPOCH_FENCE)
            state = TxnState.PREPARE_EPOCH_FENCE
        TRANSITIONS.check(state, after.state)
        if last_epoch is not None:
            self._last_epochs[transactional_id] = last_epoch
        return to_record(transactional_id, after, log_value_version(self.transaction_version))

    def tombstone(self, transactional_id: str) -> LogRecord:
        """The tombstone of an expired id."""
        TRANSITIONS.check(self._transactions[transactional_id].state, TxnState.DEAD)
        return to_tombstone(transactional_id)

    def replay(self, key: TransactionLogKey, value: TransactionLogValue | None) -> None:
        if value is None:
            self._transactions.pop(key.transactional_id, None)
            self._last_epochs.pop(key.transactional_id, None)
        else:
            self._transactions[key.transactional_id] = from_value(value)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the partition exists."""
        found = self.image.topics.by_name.get(topic)
        return found is not None and partition in found.partitions
