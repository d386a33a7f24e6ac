"""A harness for a coordinator's state machine: a fake clock, fake timers, and a log in memory.

`Harness` handles a decision like the runtime, without a disk: every record is encoded and decoded, replayed at once,
and counts as committed. `restart` builds a new state machine from the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.decision import Decision, LogRecord
from ottla.coordinator.runtime.state_machine import NO_PRODUCER, Stamp, StateMachine
from ottla.coordinator.runtime.timers import TimerOperation
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.wire import codec
from ottla.wire.schema import Message

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")
START_MS = 1_700_000_000_000


class FakeClock:
    """A clock that tests advance."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class _Timer(NamedTuple):
    due_ms: int
    number: int
    operation: TimerOperation


class FakeTimers:
    """Timers of one shard over a `FakeClock`; they fire only in `Harness.advance`."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._number = 0
        self.pending: dict[Hashable, _Timer] = {}

    def schedule(self, name: Hashable, delay_ms: int, operation: TimerOperation) -> None:
        self._number += 1
        self.pending[name] = _Timer(self._clock.now + delay_ms, self._number, operation)

    def cancel(self, name: Hashable) -> None:
        self.pending.pop(name, None)

    def is_scheduled(self, name: Hashable) -> bool:
        return name in self.pending

    def due_in(self, name: Hashable) -> int:
        """Milliseconds until the timer fires."""
        return self.pending[name].due_ms - self._clock.now

    def take_due(self, until_ms: int) -> _Timer | None:
        """Remove and return the next timer that is due by then."""
        name = min(self.pending, key=lambda each: self.pending[each][:2], default=None)
        if name is None or self.pending[name].due_ms > until_ms:
            return None
        return self.pending.pop(name)


class LoggedMarker(NamedTuple):
    """A transaction marker in the log."""

    producer_id: int
    producer_epoch: int
    committed: bool


def through_bytes(record: LogRecord) -> LogRecord:
    """The record after encoding and decoding."""
    value = None if record.value is None else _round_trip(record.value, record.version)
    return LogRecord(_round_trip(record.key, 0), value, record.version)


def _round_trip(message: Message, version: int) -> Message:
    return codec.decode(type(message), memoryview(codec.encode(message, version)), version)


class Harness(Generic[M]):
    """One state machine, its log and its clock."""

    def __init__(
        self, make: Callable[[FakeTimers, FakeClock], M], image: MetadataImage = EMPTY_IMAGE
    ) -> None:
        self._make = make
        self.clock = FakeClock()
        self.image = image
        self.log: list[tuple[LogRecord, Stamp] | LoggedMarker] = []
        self.refuse: ErrorCode | None = None
        """If set, every append fails with this error and nothing is replayed."""
        self._load()

    def _load(self) -> None:
        self.timers = FakeTimers(self.clock)
        self.machine = self._make(self.timers, self.clock)
        for entry in self.log:
            if isinstance(entry, LoggedMarker):
                self.machine.replay_marker(entry.producer_id, entry.producer_epoch, committed=entry.committed)
            else:
                self.machine.replay(*entry)
        self.machine.on_loaded(self.image)

    def restart(self) -> None:
        """Unload the state machine and load it again from the log."""
        self.timers.pending.clear()
        self.machine.on_unloaded()
        self._load()

    def apply(
        self, decision: Decision[R], *, producer_id: int = NO_PRODUCER, producer_epoch: int = -1
    ) -> Promise[R]:
        """Append a decision's records and return its response."""
        if decision.records and self.refuse is not None:
            if decision.on_complete is not None:
                decision.on_complete(self.refuse)
            return Promise()
        for record in decision.records:
            stamp = Stamp(len(self.log), self.clock.now, producer_id, producer_epoch)
            entry = (through_bytes(record), stamp)
            self.log.append(entry)
            self.machine.replay(*entry)
        if decision.on_complete is not None:
            decision.on_complete(ErrorCode.NONE)
        response: Any = decision.response
        return response if isinstance(response, Promise) else Promise.kept(response)

    def write(self, operation: Callable[[M], Decision[R]]) -> Promise[R]:
        return self.apply(operation(self.machine))

    def write_transactional(
        self, producer_id: int, producer_epoch: int, operation: Callable[[M], Decision[R]]
    ) -> Promise[R]:
        decision = operation(self.machine)
        return self.apply(decision, producer_id=producer_id, producer_epoch=producer_epoch)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Append a transaction marker."""
        self.log.append(LoggedMarker(producer_id, producer_epoch, committed))
        self.machine.replay_marker(producer_id, producer_epoch, committed=committed)

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; timers fire in order."""
        end = self.clock.now + milliseconds
        while (timer := self.timers.take_due(end)) is not None:
            self.clock.now = max(self.clock.now, timer.due_ms)
            self.apply(timer.operation())
        self.clock.now = end

    def values(self) -> list[LogRecord]:
        """Every record of the log, in order."""
        return [entry[0] for entry in self.log if not isinstance(entry, LoggedMarker)]
