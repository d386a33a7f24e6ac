"""One partition of an internal topic and its state machine.

    new -> loading -> active -> closed
              |         |
              +---------+-> failed     (the log cannot be read, until the partition is elected again)

A write is decided; its records are added to the open batch and replayed at once. At the end of this iteration of the
event loop the batch is appended, and when it is committed the responses are sent, in order. A read response also waits
until all records replayed before the read are committed. No client sees state that can still be lost.

The state machine is ahead of the log and stores no history. When an append fails, the shard closes, all waiting
requests fail with the error, and the runtime loads a new shard from the log. Before the first record of a batch is
replayed, `append_offset` checks that the log accepts appends: a decision that it refuses fails and is not replayed.

An ApiError that an operation raises is returned at once. Other exceptions are bugs and fail the promise of the
request.

Every call of the log names the leader epoch in which the shard was elected; the log refuses it in any other epoch.
When that epoch has ended, the shard closes and is not loaded again: the runtime elects a new one, or resigns.

A request whose records, or those that it can depend on, are not committed within the write timeout fails with
COORDINATOR_NOT_AVAILABLE, as in Kafka. Its outcome is then not known: the records stay, and may be committed later.
Decisions of timers wait without a limit.

A response that waits for no commit is sent only while the lease on leadership holds (`ports.LeadershipLease`) and the
log is not offline: a broker that reports a failed directory loses the leaderships in it at once, during its lease. The
commit of a later record confirms leadership by itself.

Invariants: waiting responses are in the order of the offsets they wait for; the open batch is at the end of the log.
Concurrency: one thread; nothing here blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.open_batch import OpenBatch
from ottla.coordinator.runtime.ports import EPOCH_ENDED
from ottla.coordinator.runtime.state_machine import Stamp, StateMachine
from ottla.coordinator.runtime.timer_queue import ShardTimers
from ottla.records.control import EndTxnMarker, build_end_txn_batch

if TYPE_CHECKING:
    from ottla.coordinator.runtime.runtime import Runtime
    from ottla.coordinator.runtime.timers import TimerOperation

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")
_TIMER_RETRY_MS: Final = 500

# The error that a client gets for a refused append, as in Kafka; other errors are not translated.
APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Parked:
    """A callback that waits until the log is committed up to an offset."""

    __slots__ = ("callback", "due_ms", "end_offset", "promise")

    def __init__(
        self,
        end_offset: int,
        callback: Callable[[ErrorCode], None],
        due_ms: int,
        promise: Promise[Any] | None,
    ) -> None:
        self.end_offset = end_offset
        self.callback = callback
        self.due_ms = due_ms
        self.promise = promise
        """Fails at `due_ms`; None if it may wait for ever."""


class Shard(Generic[M]):
    """The coordinator of one partition in one leader epoch."""

    def __init__(self, runtime: Runtime[M], partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ShardState.LOADING
        self.timers = ShardTimers(runtime.timer_queue, self._run_timer)
        self.machine: M = runtime.make(partition, leader_epoch, self.timers)
        self._runtime = runtime
        self._log = runtime.log
        self._batch: OpenBatch | None = None
        self._appended = 0  # the end offset of the last append of this shard
        self._committed = 0
        self._parked: deque[_Parked] = deque()
        self._expired = 0  # how many of the first parked callbacks are due
        self._expiring = False  # whether `_expire` is scheduled

    # --- lifecycle ---

    @property
    def is_loading(self) -> bool:
        return self.state is ShardState.LOADING

    def activate(self, end_offset: int) -> None:
        """Start to serve: the log has been replayed up to `end_offset`, which is its committed end."""
        self._appended = self._committed = end_offset
        self.state = ShardState.ACTIVE
        self.machine.on_loaded(self._runtime.image)

    def close(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR, *, failed: bool = False) -> None:
        """Stop coordinating: cancel timers, fail waiting responses with `error`, and notify the state machine."""
        if self.state in (ShardState.CLOSED, ShardState.FAILED):
            return
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.FAILED if failed else ShardState.CLOSED
        self.timers.clear()
        self._batch = None
        parked, self._parked = self._parked, deque()
        self._expired = 0
        for each in parked:
            self._notify(each, error)
        if was_active:
            self.machine.on_unloaded()

    def check_active(self) -> None:
        """Raise the error for the client unless the shard is active.

        Members of a group keep their partitions while their coordinator is loading: that needs the lease, too.
        """
        if self.state is ShardState.LOADING and self._runtime.lease.holds():
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    # --- operations ---

    def write(self, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        """Decide an operation, replay its records and append them; the response waits for the commit."""
        promise: Promise[R] = Promise()
        try:  # not `_failing`, because this is the path of every offset commit
            self.check_active()
            self._apply(operation(self.machine), promise)
        except Exception as error:
            if promise.done:
                raise
            promise.fail(error)
        return promise

    def read(self, operation: Callable[[M], R]) -> Promise[R]:
        """Read the state; the response waits until all records it can depend on are committed."""
        return self.write(lambda machine: Decision(operation(machine)))

    def write_transactional(
        self,
        producer_id: int,
        producer_epoch: int,
        operation: Callable[[M], Decision[R]],
        verification: object | None,
    ) -> Promise[R]:
        """Like `write`, but the records form one batch in the producer's transaction."""
        promise: Promise[R] = Promise()
        with _failing(promise):
            self.check_active()
            decision = operation(self.machine)
            if not decision.records:
                self._apply(decision, promise)
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
        # The log may refuse the producer, so the batch is appended before its records are replayed.
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
        """End a producer's transaction in this partition: append the marker and replay it."""
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
            self._park(done, promise, limited=False)
        return promise

    def _run_timer(self, name: Hashable, operation: TimerOperation) -> None:
        promise: Promise[None] = Promise()
        promise.when_done(partial(self._timer_done, name, operation))
        with _failing(promise):
            self._apply(operation(), promise, limited=False)

    def _timer_done(
        self, name: Hashable, operation: TimerOperation, value: None, error: BaseException | None
    ) -> None:
        """Run a timer again whose decision could not be appended for now; report an unexpected error."""
        if error is None:
            return
        code = error.code if isinstance(error, ApiError) else None
        if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            if self.state is ShardState.ACTIVE and not self.timers.is_scheduled(name):
                self.timers.schedule(name, _TIMER_RETRY_MS, operation)
        elif code is not ErrorCode.NOT_COORDINATOR:
            self._runtime.report(error)

    # --- appending and replaying a decision ---

    def _apply(self, decision: Decision[R], promise: Promise[R], *, limited: bool = True) -> None:
        if decision.records:
            now_ms = self._runtime.clock.now_ms()
            try:
                batch = self._add_to_batch(decision, now_ms)
            except ApiError as error:
                self._refuse(decision, promise, error)
                return
            self._replay(decision, batch.end_offset - len(decision.records), now_ms)
        self._park(decision, promise, limited=limited)

    def _add_to_batch(self, decision: Decision[R], now_ms: int) -> OpenBatch:
        """Add the decision's records to the open batch; a full batch is appended first."""
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
        end_offset = self._log.append_offset(self.partition, self.leader_epoch)
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
            # The state machine cannot replay its own decision: discard both the machine and the batch.
            self._runtime.reload(self, ErrorCode.NOT_COORDINATOR)
            raise

    def flush(self) -> None:
        """Append the open batch."""
        batch, self._batch = self._batch, None
        if batch is None or self.state is not ShardState.ACTIVE:
            return
        try:
            end_offset = self._append(batch.build(), self._runtime.clock.now_ms(), None)
        except ApiError as error:
            self._append_failed(error.code)
            return
        if end_offset != batch.end_offset:
            # Another producer wrote to the topic, which an administrator can do: the replayed offsets are wrong.
            self._runtime.reload(self, ErrorCode.NOT_COORDINATOR)

    def _flush_first(self) -> None:
        """Append the open batch, so that earlier decisions precede; raises ApiError if that fails."""
        self.flush()
        self.check_active()

    def _append(
        self, data: memoryview, now_ms: int, verification: object | None, transaction_version: int = 0
    ) -> int:
        end_offset = self._appended = self._log.append(
            self.partition,
            self.leader_epoch,
            data,
            now_ms,
            verification,
            transaction_version=transaction_version,
        )
        on_commit = partial(self._on_commit, end_offset)
        self._log.when_committed(self.partition, self.leader_epoch, end_offset, on_commit)
        return end_offset

    def _append_failed(self, error: ErrorCode) -> None:
        """Discard the state machine: it has replayed records that the log refused, or may lose."""
        if error in EPOCH_ENDED:
            self.close()
        else:
            self._runtime.reload(self, APPEND_ERRORS.get(error, error))

    def _refuse(self, decision: Decision[R], promise: Promise[R], error: ApiError) -> None:
        """Fail a decision that was neither appended nor replayed."""
        code = APPEND_ERRORS.get(error.code, error.code)
        if decision.on_complete is not None:
            decision.on_complete(code)
        promise.fail(ApiError(code, error.message))

    # --- waiting for the commit ---

    @property
    def _end_offset(self) -> int:
        """The end offset of all records that the state machine has replayed."""
        return self._appended if self._batch is None else self._batch.end_offset

    def _park(self, decision: Decision[R], promise: Promise[R], *, limited: bool = True) -> None:
        if self.state is not ShardState.ACTIVE:
            # The flush for this decision failed, or a response closed the shard.
            self._respond(decision, promise, ErrorCode.NOT_COORDINATOR)
        elif self._end_offset <= self._committed and not self._parked:
            self._respond(decision, promise, ErrorCode.NONE if self._leads() else ErrorCode.NOT_COORDINATOR)
        else:
            due_ms = self._runtime.timer_queue.now_ms() + self._runtime.write_timeout_ms
            respond = partial(self._respond, decision, promise)
            self._parked.append(_Parked(self._end_offset, respond, due_ms, promise if limited else None))
            if not self._expiring:
                self._expiring = True
                self._runtime.scheduler.call_at(due_ms, self._expire)

    def _leads(self) -> bool:
        """Whether no other broker can have been elected: the lease holds and the log can still be used."""
        if not self._runtime.lease.holds():
            return False
        try:
            self._log.committed_offset(self.partition, self.leader_epoch)
        except ApiError:
            return False
        return True

    def _expire(self) -> None:
        """Fail the requests that have waited for too long."""
        self._expiring = False
        now_ms = self._runtime.timer_queue.now_ms()
        late: list[Promise[Any]] = []
        for each in islice(self._parked, self._expired, None):
            if each.due_ms > now_ms:
                self._expiring = True
                self._runtime.scheduler.call_at(each.due_ms, self._expire)
                break
            self._expired += 1
            if each.promise is not None and not each.promise.done:
                late.append(each.promise)
        for promise in late:
            promise.fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the write is not committed in time"))

    def _respond(self, decision: Decision[R], promise: Promise[R], error: ErrorCode) -> None:
        if decision.on_complete is not None:
            decision.on_complete(error)
        if promise.done:
            return  # it has failed because of the write timeout
        if error:
            promise.fail(ApiError(error))
        elif isinstance(decision.response, Promise):
            decision.response.when_done(partial(self._respond_later, promise))
        else:
            promise.keep(decision.response)

    def _respond_later(self, promise: Promise[Any], value: Any, error: BaseException | None) -> None:
        """Send a delayed response when the records that it can depend on are committed."""
        if promise.done:
            return
        if error is not None:
            promise.fail(error)
        elif self.state is not ShardState.ACTIVE:
            promise.keep(
                value
            )  # a response to a request that waited in the state machine when the shard closed
        else:
            self._park(Decision(value), promise)

    def _on_commit(self, end_offset: int, error: ErrorCode) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        if error:
            self._append_failed(error)
            return
        self._committed = max(self._committed, end_offset)
        self._runtime.committed(self)
        parked = self._parked
        while parked and parked[0].end_offset <= self._committed and self.state is ShardState.ACTIVE:
            self._expired = max(0, self._expired - 1)
            self._notify(parked.popleft(), ErrorCode.NONE)

    def _notify(self, parked: _Parked, error: ErrorCode) -> None:
        """Call one callback; an exception in it must not keep the others from being called."""
        try:
            parked.callback(error)
        except Exception as exception:  # noqa: BLE001 - reported
            self._runtime.report(exception)


@contextmanager
def _failing(promise: Promise[R]) -> Iterator[None]:
    """Fail the promise with an exception, unless the promise is already complete."""
    try:
        yield
    except Exception as error:
        if promise.done:
            raise
        promise.fail(error)


def _too_large() -> ApiError:
    """The caller translates this error for the client: Kafka uses one code for offsets and another for the rest."""
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        "the records do not fit into one batch of the internal topic",
    )
