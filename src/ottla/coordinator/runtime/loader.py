"""Replays logs into state machines before they serve requests, in slices, so that other work is not delayed.

Shards are loaded one after another, in the order of their election. Loading starts when the whole log is committed,
because a state machine built from records that are lost later would be wrong. A shard whose leader epoch ends
meanwhile is closed. Records and transaction markers are
replayed. Records of unknown types are skipped: a newer broker wrote them.

A log that cannot be read fails its own shard, with an error in the broker's log, and no other shard. Concurrency: one
thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.runtime.codec import DamagedRecord, RecordTable
from ottla.coordinator.runtime.ports import Batches
from ottla.coordinator.runtime.state_machine import Stamp, StateMachine
from ottla.records.batch import BatchHeader
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records, record_timestamp

if TYPE_CHECKING:
    from ottla.coordinator.runtime.runtime import Runtime
    from ottla.coordinator.runtime.shard import Shard

SLICE_RECORDS: Final = 500
RETRY_MS: Final = 20
_NOT_LED_YET: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})
_SHARD_COST: Final = 10  # the cost of creating a state machine and opening its log, in records


def replay_batches(machine: StateMachine, batches: Batches, table: RecordTable) -> Iterator[None]:
    """Replay a log; yields after each record. Raises DamagedRecord or CorruptBatch."""
    for header, data in batches:
        for record in iter_records(data, header):
            if header.is_control:
                marker = read_end_txn(record.key, record.value)
                if marker is not None:
                    machine.replay_marker(
                        header.producer_id, header.producer_epoch, committed=marker.committed
                    )
            else:
                decoded = table.decode(record.key, record.value)
                if decoded is not None:
                    machine.replay(
                        decoded, _stamp(header, record.offset_delta, record_timestamp(header, record))
                    )
            yield


def _stamp(header: BatchHeader, delta: int, timestamp_ms: int) -> Stamp:
    offset = header.base_offset + delta
    if header.is_transactional:
        return Stamp(offset, timestamp_ms, header.producer_id, header.producer_epoch)
    return Stamp(offset, timestamp_ms)


class Loader:
    """The queue of shards to load."""

    def __init__(self, runtime: Runtime[Any]) -> None:
        self._runtime = runtime
        self._waiting: deque[Shard[Any]] = deque()
        self._current: tuple[Shard[Any], int, Iterator[None]] | None = None
        self._running = False

    def add(self, shard: Shard[Any]) -> None:
        self._waiting.append(shard)
        if not self._running:
            self._running = True
            self._runtime.scheduler.call_soon(self._slice)

    def _slice(self) -> None:
        budget = SLICE_RECORDS
        while budget > 0 and (self._current is not None or self._waiting):
            if self._current is None:
                self._start_loading(self._waiting.popleft())
                budget -= _SHARD_COST
            else:
                budget -= self._replay_some(self._current, budget)
        self._running = self._current is not None or bool(self._waiting)
        if self._running:
            self._runtime.scheduler.call_soon(self._slice)

    def _start_loading(self, shard: Shard[Any]) -> None:
        if not shard.is_loading:
            return
        log, led = self._runtime.log, (shard.partition, shard.leader_epoch)
        try:
            end_offset = log.end_offset(*led)
            if log.committed_offset(*led) < end_offset:
                log.when_committed(*led, end_offset, lambda error: self._on_log_committed(shard, error))
                return
            steps = replay_batches(shard.machine, log.batches(*led), self._runtime.table)
            self._current = (shard, end_offset, steps)
        except ApiError as error:
            self._on_failure(shard, error)

    def _on_log_committed(self, shard: Shard[Any], error: ErrorCode) -> None:
        if error and shard.is_loading:
            self._on_failure(shard, ApiError(error))
        else:
            self.add(shard)

    def _replay_some(self, current: tuple[Shard[Any], int, Iterator[None]], budget: int) -> int:
        """Replay at most `budget` records; returns the number of records."""
        shard, end_offset, steps = current
        if not shard.is_loading:
            self._current = None
            return 0
        count = 0
        try:
            for _ in steps:
                count += 1
                if count >= budget:
                    return count
            self._current = None
            shard.activate(end_offset)
        except Exception as error:  # noqa: BLE001 - the error fails this shard only
            self._current = None
            self._on_failure(shard, error)
        return count

    def _on_failure(self, shard: Shard[Any], error: Exception) -> None:
        code = error.code if isinstance(error, ApiError) else None
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            shard.close()
            return
        if code in _NOT_LED_YET:
            # The election is known here before the log is led in its epoch; a lost leadership closes the shard.
            due_ms = self._runtime.timer_queue.now_ms() + RETRY_MS
            self._runtime.scheduler.call_at(due_ms, partial(self.add, shard))
            return
        shard.close(failed=True)
        damaged = isinstance(error, ApiError | DamagedRecord)
        self._runtime.load_failed(shard, error, unexpected=not damaged)
