"""A model of the transaction coordinator under random requests, lost responses, zombies, late markers and crashes.

The model records every producer that a client ever got, and each of them may send requests at any time. A response
that waits for a commit has not been sent; a crash then loses the end of the log and the response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.txn.completion import MarkerResults, TxnMarkerEntry
from ottla.coordinator.txn.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH, NO_EPOCH, NO_PRODUCER, Producer
from ottla.coordinator.txn.transitions import TxnState
from tests.support.txn_coordinator import T0, T1, T2, TxnBench

NAMES = ("a", "b")
LATE = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
names = st.sampled_from(NAMES)
some_partitions = st.frozensets(st.sampled_from((T0, T1, T2)), min_size=1)


class Written(NamedTuple):
    """A transaction: its producer and its start time."""

    name: str
    producer_id: int
    started_ms: int


class Model(RuleBasedStateMachine):
    @initialize(
        version=st.sampled_from((1, 2, 2)), near_the_end=st.booleans(), exhausted_soon=st.integers(0, 3)
    )
    def begin(self, version: int, near_the_end: bool, exhausted_soon: int) -> None:
        self.bench = TxnBench(version=version, transaction_two_phase_commit_enable="true")
        self.known: dict[str, list[Producer]] = {name: [] for name in NAMES}
        self.outcomes: dict[Written, bool] = {}
        self.acknowledged: dict[Written, set[TopicPartition]] = {}
        self.committed_length = 0
        self.parked: list[Callable[[], None]] = []
        self.bench.markers.send = self.send  # type: ignore[method-assign]
        for name in NAMES:
            self.responded(name, self.bench.started(name))
            if near_the_end:
                self.bench.put(name, producer_epoch=LAST_CLIENT_EPOCH - exhausted_soon)
                self.responded(name, self.bench.transaction(name).client)
        self.sync()

    # Responses

    def responded(self, name: str, producer: Producer) -> None:
        if producer != NO_PRODUCER and producer not in self.known[name]:
            assert producer.epoch <= LAST_CLIENT_EPOCH
            self.known[name].append(producer)

    def later(self, callback: Callable[[], None]) -> None:
        """Call the callback at once, or when the log is committed; a crash may come first."""
        if self.bench.bench.holding:
            self.parked.append(callback)
        else:
            callback()

    def sync(self) -> None:
        if not self.bench.bench.holding:
            self.committed_length = len(self.bench.bench.log)

    def send(self, marker: TxnMarkerEntry, callback: Callable[[MarkerResults], None]) -> None:
        name = self.coordinated(marker)
        written = self.written(name)
        decided = self.bench.transaction(name).state is TxnState.PREPARE_COMMIT
        assert marker.committed is decided
        assert self.outcomes.setdefault(written, marker.committed) is marker.committed

        def heard(results: Mapping[TopicPartition, ErrorCode]) -> None:
            done = {each for each, code in results.items() if code is ErrorCode.NONE}
            self.acknowledged.setdefault(written, set()).update(done)
            callback(results)

        type(self.bench.markers).send(self.bench.markers, marker, heard)

    def coordinated(self, marker: TxnMarkerEntry) -> str:
        (name,) = (
            name
            for name in NAMES
            if self.bench.transaction(name).producer == (marker.producer_id, marker.producer_epoch)
        )
        return name

    def written(self, name: str) -> Written:
        transaction = self.bench.transaction(name)
        return Written(name, transaction.producer_id, transaction.started_ms)

    # Requests

    @rule(name=names, number=st.integers(0, 5), fresh=st.booleans(), two=st.booleans(), keep=st.booleans())
    def init(self, name: str, number: int, fresh: bool, two: bool, keep: bool) -> None:
        expected = None if fresh else self.pick(name, number)
        response = self.bench.init(name, expected=expected, two_phase=two, keep_prepared=keep)
        self.later(lambda: self.responded(name, response.producer))
        self.sync()

    @rule(name=names, number=st.integers(0, 5), partitions=some_partitions, version=st.sampled_from((0, 2)))
    def add(self, name: str, number: int, partitions: frozenset[TopicPartition], version: int) -> None:
        producer, before = self.pick(name, number), self.bench.transaction(name)
        code = self.bench.add(producer, *partitions, name=name, version=version)
        if code is ErrorCode.NONE:
            assert producer == before.client
            assert not before.state.preparing
            assert partitions <= self.bench.transaction(name).partitions
        self.sync()

    @rule(name=names, number=st.integers(0, 5), committed=st.booleans(), version=st.sampled_from((0, 2, 2)))
    def end(self, name: str, number: int, committed: bool, version: int) -> None:
        producer, before = self.pick(name, number), self.bench.transaction(name)
        written = self.written(name)
        response = self.bench.end(producer, committed=committed, name=name, version=version)
        if response.error is ErrorCode.NONE:
            if before.state is TxnState.ONGOING:
                assert producer == before.client
            self.later(lambda: self.ended(name, written, before.state, committed, response.producer))
        self.sync()

    def ended(
        self, name: str, written: Written, state: TxnState, committed: bool, producer: Producer
    ) -> None:
        """A client got the result of its transaction; no client may ever get the opposite result."""
        if state is not TxnState.EMPTY and not (state.idle and not committed):
            assert self.outcomes.setdefault(written, committed) is committed
        self.responded(name, producer)

    def pick(self, name: str, number: int) -> Producer:
        """One of the latest producers of the id, mostly the last one."""
        return self.known[name][-1 - min(max(number - 2, 0), len(self.known[name]) - 1)]

    # Faults

    @rule(code=st.sampled_from(LATE), only=st.one_of(st.just(frozenset()), some_partitions))
    def markers_arrive(self, code: ErrorCode, only: frozenset[TopicPartition]) -> None:
        self.bench.markers.acknowledge(code, *only)

    @rule(milliseconds=st.sampled_from((1, 100, 10_000, 70_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.bench.bench.advance(milliseconds)
        self.sync()

    @rule()
    def commits_are_late(self) -> None:
        self.bench.hold_commits()

    @rule()
    def commits_come(self) -> None:
        self.bench.release_commits()
        parked, self.parked = self.parked, []
        for callback in parked:
            callback()
        self.sync()

    @rule(lost=st.booleans())
    def crash(self, lost: bool) -> None:
        late = list(self.bench.markers.on_the_way)
        if lost:
            del self.bench.bench.log[self.committed_length :]
        self.parked.clear()
        self.bench.bench.holding = False
        self.bench.restart()
        self.sync()
        for sent in late:
            sent.callback(dict.fromkeys(sent.marker.partitions, ErrorCode.NONE))

    # Invariants

    @invariant()
    def the_log_tells_no_impossible_story(self) -> None:
        if not hasattr(self, "bench"):
            return
        last: dict[str, TransactionLogValue] = {}
        epochs: dict[int, int] = {}
        for record in self.bench.bench.values():
            assert isinstance(record.key, TransactionLogKey)
            value = record.value
            assert isinstance(value, TransactionLogValue)
            before = last.get(record.key.transactional_id)
            if before is not None:
                self.follows(before, value)
            for producer in _producers(value):
                assert producer.epoch >= epochs.get(producer.id, 0), "an epoch went back"
                epochs[producer.id] = producer.epoch
            last[record.key.transactional_id] = value

    def follows(self, before: TransactionLogValue, after: TransactionLogValue) -> None:
        state = TxnState(before.transaction_status)
        if state is TxnState.PREPARE_COMMIT:
            assert after.transaction_status == TxnState.COMPLETE_COMMIT.value
        if state is TxnState.PREPARE_ABORT:
            assert after.transaction_status == TxnState.COMPLETE_ABORT.value

    @invariant()
    def what_is_complete_has_all_its_markers(self) -> None:
        if not hasattr(self, "bench"):
            return
        for name in NAMES:
            values = [
                record.value
                for record in self.bench.bench.values()
                if isinstance(record.key, TransactionLogKey) and record.key.transactional_id == name
            ]
            if len(values) > 1 and self.bench.transaction(name).state.label.startswith("Complete"):
                prepared = values[-2]
                assert isinstance(prepared, TransactionLogValue)
                wanted = {
                    TopicPartition(each.topic, index)
                    for each in prepared.transaction_partitions or ()
                    for index in each.partition_ids
                }
                written = Written(name, prepared.producer_id, prepared.transaction_start_timestamp_ms)
                assert wanted <= self.acknowledged.get(written, set())

    def teardown(self) -> None:
        """After the faults every decided transaction is completed, and timeouts end the rest."""
        if not hasattr(self, "bench"):
            return
        self.commits_come()
        endless = {name for name in NAMES if self.bench.transaction(name).two_phase}
        was_open = {name for name in NAMES if self.bench.state(name) == "Ongoing"}
        for _ in range(3):
            self.bench.complete()
            self.bench.bench.advance(100_000)
        self.bench.complete()
        for name in NAMES:
            if name in endless & was_open:
                assert self.bench.state(name) == "Ongoing"
            else:
                assert self.bench.transaction(name).state.idle


def _producers(value: TransactionLogValue) -> list[Producer]:
    """The producers in a record; the producer that wrote a kept transaction comes after the one that kept it."""
    if value.next_producer_epoch == NO_EPOCH:
        return [Producer(value.producer_id, value.producer_epoch)]
    return [Producer(value.next_producer_id, value.next_producer_epoch)]


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestModel = Model.TestCase
