"""Batches of idempotent producers that a partition refused for a reason that passes: no leadership, a small ISR.

A producer has several batches in flight. If the first one is refused because this broker does not lead yet, or because
the ISR is too small, and the reason passes before the second one arrives, the second one must not be appended: the
first one would be missing before it. Kafka then responds with OUT_OF_ORDER_SEQUENCE_NUMBER, or appends the second one
if it does not know the producer. Both damage the order of the records, or worse: librdkafka responds to that error with
a new producer epoch, in which it sends records of all partitions again that may already be in the log.

Here the batches that follow a refused one get the same error as that one, as if they had arrived at the same time,
until the refused one is sent again. A producer retries both errors, in order.

Pure; times are arguments. Memory: at most `_BATCHES_MAX` sequence numbers of at most `_PRODUCERS_MAX` producers.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.records.batch import HEADER_SIZE
from ottla.storage.producers.producer_state import ProducerState

VALID_MS: Final = 5_000
"""A client that does not send a refused batch again within this time has given it up."""
_BATCHES_MAX: Final = 5
_PRODUCERS_MAX: Final = 100
_PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_POSITION: Final = 43
_SEQUENCE_MASK: Final = 2**31 - 1


class _Refused:
    __slots__ = ("at_ms", "epoch", "errors")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.at_ms = 0
        self.errors: dict[int, ErrorCode] = {}
        """By base sequence."""


class RefusedBatches:
    """The refused batches of one partition."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Refused] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def add(self, records: Buffer, error: ErrorCode, now_ms: int) -> None:
        """A batch was refused; it may be malformed."""
        if len(records) < HEADER_SIZE:
            return
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
        if producer_id < 0 or sequence < 0:
            return
        refused = self._producers.pop(producer_id, None)
        if refused is None or refused.epoch != epoch:
            refused = _Refused(epoch)
        self._producers[producer_id] = refused
        refused.at_ms = now_ms
        refused.errors.pop(sequence, None)
        refused.errors[sequence] = error
        if len(refused.errors) > _BATCHES_MAX:
            del refused.errors[next(iter(refused.errors))]
        if len(self._producers) > _PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]

    def error_of_predecessor(
        self, records: Buffer, producers: ProducerState, now_ms: int
    ) -> ErrorCode | None:
        """The error of the refused batch that must be appended before this one; None if there is none.

        A refused batch that is sent again is forgotten, unless one before it is still missing.
        """
        if len(records) < HEADER_SIZE:
            return None
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
        refused = self._producers.get(producer_id)
        if refused is None or refused.epoch != epoch:
            return None
        if abs(now_ms - refused.at_ms) > VALID_MS:
            del self._producers[producer_id]
            return None
        entry = producers.get(producer_id)
        if entry is not None and entry.epoch == epoch:
            missing = (entry.last_sequence + 1) & _SEQUENCE_MASK
        else:
            missing = min(refused.errors)
        if missing < sequence and (error := refused.errors.get(missing)) is not None:
            return error
        refused.errors.pop(sequence, None)
        if not refused.errors:
            del self._producers[producer_id]
        return None
