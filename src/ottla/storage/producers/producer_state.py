"""The state of the producers of a log: sequence numbers, epochs and open transactions.

For each producer id: its epoch, the last batches (enough for a client with five requests in flight to retry any of
them), the time of its last batch, the epoch of the transaction coordinator that last ended a
transaction here, and the start of its open transaction.

A leader calls `check` before an append: it changes nothing and returns a duplicate or None, or raises
`ApiError`. `append_batch` and `append_marker` record what is in the log without checks: followers and recovery use
them on batches that a leader has checked.

A transaction must not begin in a log that its coordinator does not know of, because no marker would end it there
(KIP-890). Its first batch is therefore verified with the coordinator. The `Verification` is valid for that producer
until a batch or a marker of it is appended: a marker that arrives before the response makes the response void.

The first unstable offset is where a reader of committed records must stop: the start of the earliest
transaction that is open, or the marker of which is not yet below the high watermark.

Bounds: a producer takes some 400 bytes and is removed when `producer.id.expiration.ms` have passed since its last
batch. Nothing else limits their number, as in Kafka: without its state a retry would be appended twice.

Must not know files (`producer_snapshot` does) or batches' bytes. Concurrency: the log's task only.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, invariant

BATCHES_REMEMBERED: Final = 5
"""As in Kafka: the number of batches that a client has in flight."""
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TRANSACTION: Final = -1
NO_TIMESTAMP: Final = -1
_SEQUENCE_MASK: Final = 2**31 - 1  # sequence numbers wrap from 2^31-1 to 0
_FIELDS: Final = 4  # of a remembered batch: last sequence, last offset, offset delta, timestamp


class Duplicate(NamedTuple):
    """A batch that is already in the log."""

    base_offset: int
    last_offset: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A transaction that a marker has just ended."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # of the log, counting this transaction as ended
    aborted: bool


class ProducerSnapshotEntry(NamedTuple):
    """One producer in a snapshot; of its batches only the last survives."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


class Verification:
    """A verification that a producer's transaction includes this partition, valid until a batch or marker is appended.

    While it is open no batch is accepted before the one with the lowest sequence number that is being verified.
    """

    __slots__ = ("epoch", "lowest_sequence", "started_ms")

    def __init__(self, epoch: int, sequence: int, started_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms

    def include(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


NOT_REQUIRED: Final = Verification(NO_EPOCH, NO_SEQUENCE, NO_TIMESTAMP)
"""Instead of a verification: it is disabled, or the batch was verified before."""


class ProducerEntry:
    __slots__ = ("_batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(
        self, epoch: int, coordinator_epoch: int, last_timestamp: int, txn_first_offset: int
    ) -> None:
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self._batches: array[int] = array("q")

    @property
    def last_sequence(self) -> int:
        return self._batches[-4] if self._batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last data record, -1 if none is remembered."""
        return self._batches[-3] if self._batches else -1

    @property
    def offset_delta(self) -> int:
        return self._batches[-2] if self._batches else 0

    def find(self, base_sequence: int, last_sequence: int) -> Duplicate | None:
        """The remembered batch with exactly these sequence numbers."""
        batches = self._batches
        for at in range(0, len(batches), _FIELDS):
            if batches[at] == last_sequence:
                delta = batches[at + 2]
                if (last_sequence - delta) & _SEQUENCE_MASK == base_sequence:
                    return Duplicate(batches[at + 1] - delta, batches[at + 1], batches[at + 3])
        return None

    def move_to_epoch(self, epoch: int) -> None:
        """Drop batches of an older epoch: a new epoch starts at sequence 0."""
        if epoch != self.epoch:
            self.epoch = epoch
            del self._batches[:]

    def copy_batches(self, other: ProducerEntry) -> None:
        self._batches = array("q", other._batches)

    def remember(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        batches = self._batches
        if len(batches) == BATCHES_REMEMBERED * _FIELDS:
            del batches[:_FIELDS]
        batches.extend((last_sequence, last_offset, offset_delta, timestamp))
        self.last_timestamp = timestamp


class ProducerState:
    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = 0  # everything in the log below it is reflected here
        self._producers: dict[int, ProducerEntry] = {}
        # First offset -> producer id of open transactions. Transactions begin in offset order, so that is the
        # order of the dictionary too.
        self._open: dict[int, int] = {}
        # (marker offset, first offset) of ended transactions whose marker is not known to be replicated.
        self._unreplicated: deque[tuple[int, int]] = deque()
        self._unreplicated_first = NO_TRANSACTION
        self._verifications: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest undecided or not yet replicated transaction begins."""
        first_open = next(iter(self._open), None)
        if not self._unreplicated:
            return first_open
        first = self._unreplicated_first
        return first if first_open is None else min(first, first_open)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def items(self) -> Iterable[tuple[int, ProducerEntry]]:
        """All producers; a copy, because a worker makes them again while the log is truncated."""
        return list(self._producers.items())

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, in that epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.txn_first_offset != NO_TRANSACTION and entry.epoch == epoch

    def start_verification(
        self, producer_id: int, epoch: int, base_sequence: int, now_ms: int
    ) -> Verification | None:
        """Return the verification that the first batch of a transaction needs; None if the transaction has begun.

        Raise ApiError if the producer has a later epoch here.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.in_transaction(producer_id, epoch):
            return None
        known = self._verifications.get(producer_id)
        if known is None:
            known = self._verifications[producer_id] = Verification(epoch, base_sequence, now_ms)
        known.include(epoch, base_sequence)
        return known

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_sequence: int,
        *,
        transactional: bool = False,
        epoch_per_transaction: bool = False,
        verification: Verification | None = NOT_REQUIRED,
    ) -> Duplicate | None:
        """Whether a client's batch may be appended: None if so, the earlier append if it is a retry.

        `base_sequence` -1 is a batch of a coordinator, of which only the epoch is checked. With
        `epoch_per_transaction` (Produce from version 12 on) the first batch of a transaction has sequence 0.
        A transaction begins only with its `verification`.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and base_sequence != NO_SEQUENCE and epoch == entry.epoch:
            duplicate = entry.find(base_sequence, last_sequence)
            if duplicate is not None:
                return duplicate
        if verification is not NOT_REQUIRED:
            if transactional:
                self._check_verified(producer_id, epoch, verification)
            if self._verifications and base_sequence != NO_SEQUENCE:
                self._check_in_line(producer_id, entry, epoch, base_sequence)
        if entry is None:
            if transactional and epoch_per_transaction and base_sequence > 0:
                raise _out_of_order(
                    f"producer {producer_id} starts a transaction at {base_sequence}, not at 0"
                )
            return None
        if base_sequence != NO_SEQUENCE:
            self._check_sequence(producer_id, entry, epoch, base_sequence)
            in_transaction = entry.txn_first_offset != NO_TRANSACTION
            if transactional and epoch_per_transaction and base_sequence > 0 and not in_transaction:
                raise _out_of_order(
                    f"producer {producer_id} starts a transaction at {base_sequence}, not at 0"
                )
        else:
            self._check_epoch(producer_id, entry, epoch)
        if entry.txn_first_offset != NO_TRANSACTION and not transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def _check_verified(self, producer_id: int, epoch: int, verification: Verification | None) -> None:
        known = self._verifications.get(producer_id)
        if not self.in_transaction(producer_id, epoch) and (
            verification is None or verification is not known
        ):
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer_id} does not include this partition",
            )

    def _check_in_line(
        self, producer_id: int, entry: ProducerEntry | None, epoch: int, base_sequence: int
    ) -> None:
        """While a batch is being verified, none that follows it is accepted."""
        if entry is not None:
            self._check_epoch(producer_id, entry, epoch)
        known = self._verifications.get(producer_id)
        if known is not None and base_sequence > known.lowest_sequence:
            raise _out_of_order(
                f"producer {producer_id} sent {base_sequence} while {known.lowest_sequence} is being verified"
            )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, epoch_per_transaction: bool = False
    ) -> None:
        """Whether a transaction coordinator may end a transaction of this producer.

        With `epoch_per_transaction` a marker bears an epoch above that of its transaction: one that does not
        belongs to an earlier transaction, or is a repetition of one that was applied (which has no effect).
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(producer_id, entry, epoch)
        if epoch_per_transaction and epoch == entry.epoch and entry.txn_first_offset != NO_TRANSACTION:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {producer_id} has epoch {epoch}, which its open transaction has too",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is behind {entry.coordinator_epoch}",
            )

    def append_batch(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        *,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """Record a data batch that is in the log; `timestamp` is its greatest."""
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = ProducerEntry(epoch, -1, NO_TIMESTAMP, NO_TRANSACTION)
            self._producers[producer_id] = entry
        entry.move_to_epoch(epoch)
        entry.remember(last_sequence, last_offset, last_offset - base_offset, timestamp)
        if transactional:
            self._verifications.pop(producer_id, None)
        if transactional and entry.txn_first_offset == NO_TRANSACTION:
            entry.txn_first_offset = base_offset
            self._open[base_offset] = producer_id
        self.end_offset = last_offset + 1

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        *,
        offset: int,
        timestamp: int,
        aborted: bool,
    ) -> CompletedTxn | None:
        """Record a transaction marker that is in the log; None if the producer had nothing open here."""
        self._verifications.pop(producer_id, None)
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = ProducerEntry(epoch, coordinator_epoch, timestamp, NO_TRANSACTION)
            self._producers[producer_id] = entry
        entry.move_to_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        self.end_offset = offset + 1
        first = entry.txn_first_offset
        if first == NO_TRANSACTION:
            return None
        entry.txn_first_offset = NO_TRANSACTION
        invariant(self._open.pop(first, None) == producer_id, f"transaction at {first} ended twice")
        if not self._unreplicated or first < self._unreplicated_first:
            self._unreplicated_first = first
        self._unreplicated.append((offset, first))
        stable = next(iter(self._open), offset + 1)
        return CompletedTxn(producer_id, first, offset, stable, aborted)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions with a replicated marker no longer limit readers."""
        unreplicated = self._unreplicated
        removed_first = False
        while unreplicated and unreplicated[0][0] < high_watermark:
            removed_first |= unreplicated.popleft()[1] == self._unreplicated_first
        if removed_first and unreplicated:
            self._unreplicated_first = min(first for _, first in unreplicated)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Records below `log_start_offset` were removed. Producers remain: their sequence numbers are still checked."""
        self.high_watermark_moved(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers that have been silent for too long; those with an open transaction stay."""
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if self._is_expired(entry.last_timestamp, entry.txn_first_offset, now_ms)
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.started_ms >= self.expiration_ms:
                del self._verifications[producer_id]
        return len(expired)

    def clear(self, end_offset: int) -> None:
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._verifications.clear()
        self.end_offset = end_offset

    def load(self, entries: Iterable[ProducerSnapshotEntry], end_offset: int, now_ms: int) -> None:
        """Become the state that a snapshot at `end_offset` describes."""
        self.clear(end_offset)
        for saved in entries:
            if self._is_expired(saved.timestamp, saved.txn_first_offset, now_ms):
                continue
            entry = ProducerEntry(
                saved.epoch, saved.coordinator_epoch, saved.timestamp, saved.txn_first_offset
            )
            if saved.last_offset >= 0:
                entry.remember(saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp)
            self._producers[saved.producer_id] = entry
        opened = ((e.txn_first_offset, p) for p, e in self._producers.items() if e.txn_first_offset >= 0)
        self._open.update(sorted(opened))

    def learn_windows(self, recent: ProducerState) -> None:
        """Take over the remembered batches of producers of which a snapshot kept only the last.

        `recent` was made from the end of the same log.
        """
        for producer_id, entry in self._producers.items():
            other = recent.get(producer_id)
            if other is not None and (other.epoch, other.last_offset) == (entry.epoch, entry.last_offset):
                entry.copy_batches(other)

    def snapshot(self) -> Iterator[ProducerSnapshotEntry]:
        """The producers in the order of their ids, so that equal states make equal files."""
        for producer_id, entry in sorted(self._producers.items()):
            yield ProducerSnapshotEntry(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_offset,
                entry.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )

    def _is_expired(self, last_timestamp: int, txn_first_offset: int, now_ms: int) -> bool:
        return txn_first_offset == NO_TRANSACTION and now_ms - last_timestamp >= self.expiration_ms

    def _check_epoch(self, producer_id: int, entry: ProducerEntry, epoch: int) -> None:
        if epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {epoch} of producer {producer_id} is behind {entry.epoch}",
            )

    def _check_sequence(self, producer_id: int, entry: ProducerEntry, epoch: int, base_sequence: int) -> None:
        self._check_epoch(producer_id, entry, epoch)
        if epoch > entry.epoch:
            if base_sequence != 0:
                raise _out_of_order(
                    f"epoch {epoch} of producer {producer_id} starts at {base_sequence}, not at 0"
                )
            return
        # A producer with an epoch from a marker has no batch yet: -1 makes 0 the next sequence number.
        expected = (entry.last_sequence + 1) & _SEQUENCE_MASK
        if base_sequence != expected:
            raise _out_of_order(
                f"producer {producer_id} sent sequence number {base_sequence} where {expected} was expected"
            )


def _out_of_order(message: str) -> ApiError:
    return ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
