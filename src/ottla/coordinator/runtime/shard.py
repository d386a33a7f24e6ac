"""One partition of an internal topic and the state machine that follows it.

    new -> loading -> active -> closed
              ^ |       |
              | +-------+-> failed     (what is in the log cannot be read; closed and elected anew it may be)
              +---------+              (an append failed: what was replayed must be forgotten)

A write is decided, its records are put into the open batch and replayed at once; at the end of the turn the
batch is appended, and when it is committed those who waited are answered, in order. Whoever is answered without
writing waits as well, for everything that was in the machine when he asked: nobody is told what may yet be lost.
Because the machine runs ahead of the log and keeps no history, an append that fails costs the machine: it is
thrown away and made again from the log, and everyone who waits hears why.

Refusals (`ApiError`) of an operation are told at once; other exceptions are bugs and reach whoever asked.

Invariants: parked answers are in the order of the offsets they wait for; the open batch stands at the end of the
log. Concurrency: one thread; nothing here waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.open_batch import OpenBatch
from ottla.coordinator.runtime.state_machine import Stamp, StateMachine
from ottla.coordinator.runtime.timer_queue import ShardTimers
from ottla.records.control import EndTxnMarker, build_end_txn_batch

if TYPE_CHECKING:
    from ottla.coordinator.runtime.runtime import Runtime
    from ottla.coordinator.runtime.timers import TimerOperation

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")

# What a refused append means to a client of a coordinator, as in Kafka; other errors mean what they say.
_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Parked:
    """Somebody who waits for the log to be committed up to an offset."""

    __slots__ = ("end_offset", "told")

    def __init__(self, end_offset: int, told: Callable[[ErrorCode], None]) -> None:
        self.end_offset = end_offset
        self.told = told


class Shard(Generic[M]):
    """The coordinator of one partition, in one term of leadership."""

    def __init__(self, runtime: Runtime[M], partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.timers = ShardTimers(runtime.timer_queue, self._run_timer)
        self.machine: M = runtime.make(partition, self.timers)
        self._runtime = runtime
        self._log = runtime.log
        self._batch: OpenBatch | None = None
        self._appended = 0  # the end of the log, as far as this shard has written it
        self._committed = 0
        self._parked: deque[_Parked] = deque()

    # --- its life ---

    @property
    def is_loading(self) -> bool:
        return self.state is ShardState.LOADING

    def activate(self, end_offset: int) -> None:
        """The log has been replayed up to `end_offset`, which is its end and committed."""
        self._appended = self._committed = end_offset
        self.state = ShardState.ACTIVE
        self.machine.on_loaded(self._runtime.image)

    def close(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR, *, failed: bool = False) -> None:
        """Stop coordinating: timers go, whoever waits is told `error`, the machine answers who waits in it."""
        if self.state in (ShardState.CLOSED, ShardState.FAILED):
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.FAILED if failed else ShardState.CLOSED
        self.timers.clear()
        self._batch = None
        parked, self._parked = self._parked, deque()
        for each in parked:
            self._tell(each, error)
        if was_active:
            self.machine.on_unloaded()

    def check_active(self) -> None:
        """Raise what a client is told unless the shard serves."""
        if self.state is ShardState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    # --- operations ---

    def write(self, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        """Decide, replay, append with others; answered when that is committed."""
        promise: Promise[R] = Promise()
        try:  # not `_failing`: every commit of an offset comes by here
            self.check_active()
            self._carry_out(operation(self.machine), promise)
        except Exception as error:
            if promise.done:
                raise
            promise.fail(error)
        return promise

    def read(self, operation: Callable[[M], R]) -> Promise[R]:
        """Ask; answered when everything the answer can depend on is committed."""
        return self.write(lambda machine: Decision(operation(machine)))

    def write_transactional(
        self,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[M], Decision[R]],
        verification: object | None,
    ) -> Promise[R]:
        """Like `write`, but the records are a batch of their own within the producer's transaction."""
        promise: Promise[R] = Promise()
        with _failing(promise):
            self.check_active()
            decision = operation(self.machine)
            if not decision.records:
                self._carry_out(decision, promise)
                return promise
            now_ms = self._runtime.clock.now_ms()
            try:
                batch = self._append_transactional(
                    decision, producer_id, producer_epoch, now_ms, verification
                )
            except ApiError as error:
                self._refuse(decision, promise, error)
                return promise
            self._replay(decision, batch.base_offset, now_ms, producer_id, producer_epoch)
            self._park(decision, promise)
        return promise

    def _append_transactional(
        self,
        decision: Decision[R],
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        verification: object | None,
    ) -> OpenBatch:
        self._flush_first()
        batch = self._open_batch()
        if not batch.add(decision.records, now_ms):
            raise _too_large()
        data = batch.build(producer_id, producer_epoch, transactional=True)
        # The log may refuse the producer, so it is asked before anything is replayed.
        self._append(data, now_ms, verification)
        return batch

    def complete_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        committed: bool,
        transaction_version: int = 0,
    ) -> Promise[None]:
        """End a producer's transaction in this partition: a marker in the log, and told to the machine."""
        promise: Promise[None] = Promise()
        with _failing(promise):
            self.check_active()
            now_ms = self._runtime.clock.now_ms()
            marker = build_end_txn_batch(
                EndTxnMarker(committed, coordinator_epoch),
                timestamp=now_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
            done = Decision[None](None)
            try:
                self._flush_first()
                self._append(memoryview(bytearray(marker)), now_ms, None, transaction_version)
            except ApiError as error:
                self._refuse(done, promise, error)
                return promise
            self.machine.replay_marker(producer_id, producer_epoch, committed=committed)
            self._park(done, promise)
        return promise

    def _run_timer(self, operation: TimerOperation) -> None:
        promise: Promise[None] = Promise()
        promise.when_done(partial(_report, self._runtime.report))
        with _failing(promise):
            self._carry_out(operation(), promise)

    # --- from a decision to its answer ---

    def _carry_out(self, decision: Decision[R], promise: Promise[R]) -> None:
        if decision.records:
            now_ms = self._runtime.clock.now_ms()
            try:
                batch = self._room_for(decision, now_ms)
            except ApiError as error:
                self._refuse(decision, promise, error)
                return
            self._replay(decision, batch.end_offset - len(decision.records), now_ms)
        self._park(decision, promise)

    def _room_for(self, decision: Decision[R], now_ms: int) -> OpenBatch:
        """The open batch with the decision's records in it; a full one is appended first."""
        batch = self._batch
        if batch is not None:
            if batch.add(decision.records, now_ms):
                return batch
            self._flush_first()
        batch = self._open_batch()
        if not batch.add(decision.records, now_ms):
            raise _too_large()
        self._batch = batch
        self._runtime.flush_soon(self)
        return batch

    def _open_batch(self) -> OpenBatch:
        end_offset = self._log.end_offset(self.partition)
        return OpenBatch(end_offset, self._log.batch_bytes_max(self.partition))

    def _replay(
        self,
        decision: Decision[R],
        offset: int,
        now_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        try:
            for at, record in enumerate(decision.records, offset):
                self.machine.replay(record, Stamp(at, now_ms, producer_id, producer_epoch))
        except Exception:
            # The machine refuses what it decided itself: neither it nor the batch can be believed.
            self._runtime.start_over(self, ErrorCode.NOT_COORDINATOR)
            raise

    def flush(self) -> None:
        """Append the open batch."""
        batch, self._batch = self._batch, None
        if batch is None or self.state is not ShardState.ACTIVE:
            return
        try:
            end_offset = self._append(batch.build(), self._runtime.clock.now_ms(), None)
        except ApiError as error:
            self._runtime.start_over(self, _APPEND_ERRORS.get(error.code, error.code))
            return
        if end_offset != batch.end_offset:
            # Somebody else wrote into the topic (an administrator may): the machine has wrong offsets.
            self._runtime.start_over(self, ErrorCode.NOT_COORDINATOR)

    def _flush_first(self) -> None:
        """What was decided before comes before in the log; raises if that did not work."""
        self.flush()
        self.check_active()

    def _append(
        self, data: memoryview, now_ms: int, verification: object | None, transaction_version: int = 0
    ) -> int:
        end_offset = self._appended = self._log.append(
            self.partition, data, now_ms, verification, transaction_version=transaction_version
        )
        self._log.when_committed(self.partition, end_offset, partial(self._commit_told, end_offset))
        return end_offset

    def _refuse(self, decision: Decision[R], promise: Promise[R], error: ApiError) -> None:
        """Nothing was appended, nothing replayed."""
        code = _APPEND_ERRORS.get(error.code, error.code)
        if decision.on_complete is not None:
            decision.on_complete(code)
        promise.fail(ApiError(code, error.message))

    # --- waiting ---

    @property
    def _end_offset(self) -> int:
        """The end of everything the machine has seen."""
        return self._appended if self._batch is None else self._batch.end_offset

    def _park(self, decision: Decision[R], promise: Promise[R]) -> None:
        if self.state is not ShardState.ACTIVE:
            # Flushing for this very decision failed, or an answer closed the shard.
            self._answer(decision, promise, ErrorCode.NOT_COORDINATOR)
        elif self._end_offset <= self._committed and not self._parked:
            self._answer(decision, promise, ErrorCode.NONE)
        else:
            self._parked.append(_Parked(self._end_offset, partial(self._answer, decision, promise)))

    def _answer(self, decision: Decision[R], promise: Promise[R], error: ErrorCode) -> None:
        if decision.on_complete is not None:
            decision.on_complete(error)
        if error:
            promise.fail(ApiError(error))
        elif isinstance(decision.response, Promise):
            decision.response.when_done(partial(self._late_answer, promise))
        else:
            promise.keep(decision.response)

    def _late_answer(self, promise: Promise[Any], value: Any, error: BaseException | None) -> None:
        """A response that took its time leaves like any other: when what it may depend on is committed."""
        if error is not None:
            promise.fail(error)
        elif self.state is not ShardState.ACTIVE:
            promise.keep(value)  # the machine's word to who waited in it when it ended
        else:
            self._park(Decision(value), promise)

    def _commit_told(self, end_offset: int, error: ErrorCode) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        if error:
            self._runtime.start_over(self, _APPEND_ERRORS.get(error, error))
            return
        self._committed = max(self._committed, end_offset)
        self._runtime.committed(self)
        parked = self._parked
        while parked and parked[0].end_offset <= self._committed and self.state is ShardState.ACTIVE:
            self._tell(parked.popleft(), ErrorCode.NONE)

    def _tell(self, parked: _Parked, error: ErrorCode) -> None:
        """One who cannot take his answer must not keep the others from theirs."""
        try:
            parked.told(error)
        except Exception as trouble:  # noqa: BLE001 - reported
            self._runtime.report(trouble)


@contextmanager
def _failing(promise: Promise[R]) -> Iterator[None]:
    """Whoever asked learns what went wrong, unless he has his answer already."""
    try:
        yield
    except Exception as error:
        if promise.done:
            raise
        promise.fail(error)


def _too_large() -> ApiError:
    """Whoever asked decides what that means to a client: Kafka has one code for offsets, one for the rest."""
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, "what was decided does not fit into one batch of the topic")


def _report(report: Callable[[BaseException], None], value: None, error: BaseException | None) -> None:
    """How a timer's decision ended: that its coordinator went meanwhile is nothing to tell."""
    if error is not None and not (isinstance(error, ApiError) and error.code is ErrorCode.NOT_COORDINATOR):
        report(error)
