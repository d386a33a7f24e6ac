"""Asks the coordinator of a transaction whether a partition is part of it, before its first batch goes there.

A batch of a transaction that its coordinator does not know of would never be followed by a marker, and readers of
committed records would wait for ever (KIP-890). Clients of the second protocol generation do not name partitions
beforehand: for them the question is an order to add the partition.

The proof is a `Verification` of the partition's log: the question of one producer, which a marker that overtakes
the answer makes void. While a producer has questions open about a partition all its batches for it take this way,
and answers are told in the order of the questions: so the batches stay in theirs.

When the coordinator is still busy ending the producer's last transaction, an order to add is repeated for a while,
at most `add.partitions.to.txn.retry.backoff.max.ms`: to the client the end came with EndTxn's answer.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.ports import Scheduler
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.transaction import Producer
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.replication.replicas import Replicas
from ottla.storage.producers.producer_state import NOT_ASKED, Verification

_ADDING_CLIENT_VERSION: Final = 2
_PAUSE_MS_FIRST: Final = 1

Key = tuple[TopicPartition, int]
"""A partition and a producer."""


class Verifier:
    """Questions to coordinators of transactions; those are all on this broker."""

    def __init__(
        self,
        transactions: Runtime[TxnStateMachine],
        partition_for: Callable[[str], int],
        replicas: Replicas,
        settings: DynamicConfig,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        self._transactions = transactions
        self._partition_for = partition_for
        self._replicas = replicas
        self._settings = settings
        self._clock = clock
        self._scheduler = scheduler
        self._open: dict[Key, deque[_Question]] = {}

    def ask(
        self,
        transactional_id: str,
        producer: Producer,
        where: TopicPartition,
        base_sequence: int,
        *,
        add: bool,
        abortable: bool,
    ) -> Promise[Verification | None]:
        """The proof with which a batch may be appended (None: its transaction has begun, it needs none).

        `add`: the partition is to become part of the transaction. `abortable`: the client knows that error.
        Fails with what a producer is told. Kept at once where nothing has to be asked.
        """
        if not add and not self._settings.bool("transaction.partition.verification.enable"):
            return Promise.kept(NOT_ASKED)
        try:
            now_ms = self._clock.now_ms()
            guard = self._replicas.get(*where).verify(producer.id, producer.epoch, base_sequence, now_ms)
        except ApiError as error:
            promise: Promise[Verification | None] = Promise()
            promise.fail(error)
            return promise
        key = (where, producer.id)
        if guard is None and key not in self._open:
            return Promise.kept(None)
        question = _Question(transactional_id, producer, where, guard, add=add, abortable=abortable)
        question.until_ms = self._now_ms() + self._settings.int("add.partitions.to.txn.retry.backoff.max.ms")
        self._open.setdefault(key, deque()).append(question)
        self._put(question)
        return question.promise

    def _put(self, question: _Question) -> None:
        index = self._partition_for(question.transactional_id)
        answer: Promise[ErrorCode]
        if question.add:
            answer = self._transactions.write(index, question.order)
        else:
            answer = self._transactions.read(index, question.look)
        answer.when_done(partial(self._answered, question))

    def _answered(self, question: _Question, code: ErrorCode | None, error: BaseException | None) -> None:
        if isinstance(error, ApiError):
            code = error.code
        busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and question.add
        if busy and self._now_ms() < question.until_ms:
            pause_ms = question.next_pause_ms(self._settings.int("add.partitions.to.txn.retry.backoff.ms"))
            self._scheduler.call_at(self._now_ms() + pause_ms, partial(self._put, question))
            return
        if code is None:
            question.outcome = error
        else:
            question.outcome = None if code is ErrorCode.NONE else ApiError(question.told(code))
        question.is_answered = True
        self._settle((question.where, question.producer.id))

    def _settle(self, key: Key) -> None:
        """Tell the answers that have no open question before them."""
        questions = self._open[key]
        while questions and questions[0].is_answered:
            question = questions.popleft()
            if not questions:
                del self._open[key]
            if question.outcome is None:
                question.promise.keep(question.guard)
            else:
                question.promise.fail(question.outcome)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class _Question:
    """Whether one partition is part of one transaction."""

    __slots__ = (
        "_abortable",
        "_pause_ms",
        "add",
        "guard",
        "is_answered",
        "outcome",
        "producer",
        "promise",
        "transactional_id",
        "until_ms",
        "where",
    )

    def __init__(
        self,
        transactional_id: str,
        producer: Producer,
        where: TopicPartition,
        guard: Verification | None,
        *,
        add: bool,
        abortable: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.where = where
        self.guard = guard
        self.add = add
        self.until_ms = 0
        self.promise: Promise[Verification | None] = Promise()
        self.is_answered = False
        self.outcome: BaseException | None = None
        self._abortable = abortable
        self._pause_ms = 0

    def order(self, machine: TxnStateMachine) -> Decision[ErrorCode]:
        """Make the partition part of the transaction."""
        return machine.add_partitions(
            self.transactional_id,
            self.producer,
            frozenset({self.where}),
            client_version=_ADDING_CLIENT_VERSION,
        )

    def look(self, machine: TxnStateMachine) -> ErrorCode:
        """Whether it is."""
        return machine.verify(self.transactional_id, self.producer, frozenset({self.where}))[self.where]

    def next_pause_ms(self, longest_ms: int) -> int:
        self._pause_ms = min(max(2 * self._pause_ms, _PAUSE_MS_FIRST), longest_ms)
        return self._pause_ms

    def told(self, code: ErrorCode) -> ErrorCode:
        """The coordinator's word in terms that this producer knows."""
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and not self._abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
