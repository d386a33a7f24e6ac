"""The states of a transactional id and the transitions between them.

The numbers are those of the status byte in the transaction log, the labels those of DescribeTransactions and
ListTransactions. `DEAD` and `PREPARE_EPOCH_FENCE` are intermediate states and never written: `DEAD` ends in a
tombstone, `PREPARE_EPOCH_FENCE` in the `PREPARE_ABORT` record with the raised epoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.coordinator.runtime.transitions import Move, Transitions


class TxnState(Enum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        return _LABELS[self]

    @property
    def preparing(self) -> bool:
        """Whether the end is decided and markers are being written."""
        return self in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def idle(self) -> bool:
        """Whether no transaction is open, so that a producer can start or the id can expire."""
        return self in (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


_LABELS: Final = {state: state.name.title().replace("_", "") for state in TxnState}
STATES_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

_IDLE: Final = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)

TRANSITIONS: Final = Transitions(
    "transaction",
    TxnState,
    TxnState.EMPTY,
    (
        Move("a producer starts", _IDLE, TxnState.EMPTY),
        Move("a partition is added", (*_IDLE, TxnState.ONGOING), TxnState.ONGOING),
        Move("a producer starts and keeps the prepared transaction", (TxnState.ONGOING,), TxnState.ONGOING),
        Move("the producer commits", (TxnState.ONGOING,), TxnState.PREPARE_COMMIT),
        Move("the producer aborts", (TxnState.ONGOING,), TxnState.PREPARE_ABORT),
        Move("the producer aborts an empty transaction", _IDLE, TxnState.PREPARE_ABORT),
        Move(
            "another producer starts, or the timeout passes",
            (TxnState.ONGOING,),
            TxnState.PREPARE_EPOCH_FENCE,
        ),
        Move("the epoch is raised", (TxnState.PREPARE_EPOCH_FENCE,), TxnState.PREPARE_ABORT),
        Move("all markers are written", (TxnState.PREPARE_COMMIT,), TxnState.COMPLETE_COMMIT),
        Move("all markers are written", (TxnState.PREPARE_ABORT,), TxnState.COMPLETE_ABORT),
        Move("the id expires", _IDLE, TxnState.DEAD),
    ),
)
