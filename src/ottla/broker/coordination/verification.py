"""Verifies with the coordinator of a transaction that a partition was added, before the first batch is appended.

A batch in a partition that the coordinator does not know would never be followed by a marker, and read_committed
consumers would never read past it (KIP-890). Clients of transaction version 2 do not add partitions themselves: for
them the verification adds the partition.

The result is a `Verification` of the partition's log, which belongs to one producer; a marker that is appended in the
meantime invalidates it. While a producer has open verifications for a partition, all its batches for that partition
are verified, and verifications complete in the order in which they were started: the batches stay in order.

If the coordinator is still ending the previous transaction of the producer, adding is retried for at most
`add.partitions.to.txn.retry.backoff.max.ms`, because for the client that transaction ended with the EndTxn response.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final, Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.txn.transaction import Producer
from ottla.replication.replicas import Replicas
from ottla.storage.producers.producer_state import NOT_REQUIRED, Verification

_BACKOFF_MS_FIRST: Final = 1

Key = tuple[TopicPartition, int]
"""A partition and a producer."""


class TxnPartitions(Protocol):
    """Requests about one partition of a transaction to its coordinator."""

    def check(
        self, transactional_id: str, producer: Producer, where: TopicPartition, *, add: bool
    ) -> Promise[ErrorCode]:
        """Verify that the partition is part of the producer's transaction, or add it.

        The promise may also fail with ApiError.
        """


class TxnVerifier:
    """Verifies partitions of transactions with their coordinators."""

    def __init__(
        self,
        transactions: TxnPartitions,
        replicas: Replicas,
        settings: DynamicConfig,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        self._transactions = transactions
        self._replicas = replicas
        self._settings = settings
        self._clock = clock
        self._scheduler = scheduler
        self._open: dict[Key, deque[_OpenVerification]] = {}

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        where: TopicPartition,
        base_sequence: int,
        *,
        add: bool,
        abortable: bool,
    ) -> Promise[Verification | None]:
        """Return the verification to append a batch with (None: the transaction has begun, none is needed).

        `add`: add the partition to the transaction. `abortable`: the client knows TRANSACTION_ABORTABLE. The promise
        fails with the error for the producer. It is kept at once if there is nothing to verify.
        """
        if not add and not self._settings.bool("transaction.partition.verification.enable"):
            return Promise.kept(NOT_REQUIRED)
        try:
            now_ms = self._clock.now_ms()
            verification = self._replicas.get(*where).verify(
                producer.id, producer.epoch, base_sequence, now_ms
            )
        except ApiError as error:
            promise: Promise[Verification | None] = Promise()
            promise.fail(error)
            return promise
        key = (where, producer.id)
        if verification is None and key not in self._open:
            return Promise.kept(None)
        opened = _OpenVerification(
            transactional_id, producer, where, verification, add=add, abortable=abortable
        )
        opened.retry_until_ms = self._now_ms() + self._settings.int(
            "add.partitions.to.txn.retry.backoff.max.ms"
        )
        self._open.setdefault(key, deque()).append(opened)
        self._send(opened)
        return opened.promise

    def _send(self, opened: _OpenVerification) -> None:
        result = self._transactions.check(
            opened.transactional_id, opened.producer, opened.where, add=opened.add
        )
        result.when_done(partial(self._on_result, opened))

    def _on_result(
        self, opened: _OpenVerification, code: ErrorCode | None, error: BaseException | None
    ) -> None:
        if isinstance(error, ApiError):
            code = error.code
        busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and opened.add
        if busy and self._now_ms() < opened.retry_until_ms:
            backoff_ms = opened.next_backoff_ms(self._settings.int("add.partitions.to.txn.retry.backoff.ms"))
            self._scheduler.call_at(self._now_ms() + backoff_ms, partial(self._send, opened))
            return
        if code is None:
            opened.error = error
        else:
            opened.error = None if code is ErrorCode.NONE else ApiError(opened.producer_error(code))
        opened.is_complete = True
        self._settle((opened.where, opened.producer.id))

    def _settle(self, key: Key) -> None:
        """Settle the promises of completed verifications that have no open one before them."""
        queue = self._open[key]
        while queue and queue[0].is_complete:
            opened = queue.popleft()
            if not queue:
                del self._open[key]
            if opened.error is None:
                opened.promise.keep(opened.verification)
            else:
                opened.promise.fail(opened.error)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class _OpenVerification:
    """One partition of one transaction that is being verified."""

    __slots__ = (
        "_abortable",
        "_backoff_ms",
        "add",
        "error",
        "is_complete",
        "producer",
        "promise",
        "retry_until_ms",
        "transactional_id",
        "verification",
        "where",
    )

    def __init__(
        self,
        transactional_id: str,
        producer: Producer,
        where: TopicPartition,
        verification: Verification | None,
        *,
        add: bool,
        abortable: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.where = where
        self.verification = verification
        self.add = add
        self.retry_until_ms = 0
        self.promise: Promise[Verification | None] = Promise()
        self.is_complete = False
        self.error: BaseException | None = None
        self._abortable = abortable
        self._backoff_ms = 0

    def next_backoff_ms(self, longest_ms: int) -> int:
        self._backoff_ms = min(max(2 * self._backoff_ms, _BACKOFF_MS_FIRST), longest_ms)
        return self._backoff_ms

    def producer_error(self, code: ErrorCode) -> ErrorCode:
        """Return the code with which an error of the coordinator is reported to this producer."""
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and not self._abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
