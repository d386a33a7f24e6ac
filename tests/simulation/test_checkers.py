"""Tests of the checkers of the simulation: each rule is broken by hand, and the checker must report it."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.coordinator.group import records as group_keys
from ottla.coordinator.runtime.codec import encode_key, encode_value
from ottla.coordinator.runtime.decision import LogRecord
from ottla.coordinator.txn import records as txn_keys
from ottla.records.batch import BatchHeader, read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Record, iter_records
from ottla.testing.history import Kind
from ottla.testing.sim.checkers.groups import GroupChecker
from ottla.testing.sim.checkers.offsets import Commit, OffsetChecker, Slot
from ottla.testing.sim.checkers.ownership import OwnershipChecker
from ottla.testing.sim.checkers.transaction_states import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionStateChecker,
)
from ottla.testing.sim.checkers.transactions import Epoch, TransactionChecker, TxnName
from ottla.testing.sim.kernel.events import Kernel

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
OFFSETS_PARTITION = TopicPartition("__consumer_offsets", 0)
SLOT = Slot("g", PARTITION)


class Checkers:
    """All checkers of a cluster, and the batches that a log would pass to them."""

    def __init__(self) -> None:
        self.kernel = Kernel(0)
        self.ownership = OwnershipChecker(self.kernel)
        self.groups = GroupChecker(self.kernel)
        self.txns = TransactionChecker(self.kernel)
        self.offsets = OffsetChecker(self.kernel, self.txns, self.groups)
        self.states = TransactionStateChecker(self.kernel)
        self._ends: dict[TopicPartition, int] = {}

    def batch(
        self, tp: TopicPartition, records: list[NewRecord], producer: int = -1
    ) -> tuple[BatchHeader, list[Record]]:
        offset = self._ends.get(tp, 0)
        self._ends[tp] = offset + len(records)
        data = build_batch(records, base_offset=offset, producer_id=producer, transactional=producer >= 0)
        header = read_header(data)
        return header, list(iter_records(data, header))

    def written(self, tp: TopicPartition, *values: str, producer: int = 7) -> None:
        records = [NewRecord(None, value.encode()) for value in values]
        self.txns.data(tp, *self.batch(tp, records, producer))

    def marked(self, tp: TopicPartition, *, committed: bool, producer: int = 7) -> None:
        header, _ = self.batch(tp, [NewRecord(b"", b"")], producer)
        self.txns.marker(tp, header, committed=committed)

    def logged(self, *records: LogRecord, producer: int = -1) -> None:
        made = [NewRecord(encode_key(each.key), encode_value(each)) for each in records]
        self.offsets.data(OFFSETS_PARTITION, *self.batch(OFFSETS_PARTITION, made, producer))

    def committed(self, name: str, offset: int, *, producer: int = -1) -> None:
        key = group_keys.OffsetCommitKey(group="g", topic="t", partition=0)
        value = group_keys.OffsetCommitValue(offset=offset, metadata=name)
        self.logged(LogRecord(key, value, 3), producer=producer)

    def generation(self, number: int) -> None:
        value = group_keys.GroupMetadataValue(generation=number)
        self.logged(LogRecord(group_keys.GroupMetadataKey(group="g"), value, 3))

    def moved(self, status: int, epoch: int) -> None:
        value = txn_keys.TransactionLogValue(
            producer_id=7, producer_epoch=epoch, transaction_status=status, transaction_partitions=[]
        )
        record = LogRecord(txn_keys.TransactionLogKey(transactional_id="x"), value, 1)
        made = [NewRecord(encode_key(record.key), encode_value(record))]
        self.states.data(OFFSETS_PARTITION, *self.batch(OFFSETS_PARTITION, made))

    @property
    def rule(self) -> str:
        """The violated rule; empty if there is none."""
        return "" if self.kernel.violation is None else self.kernel.violation.rule


@pytest.fixture
def checkers() -> Checkers:
    return Checkers()


def test_a_correct_transaction_violates_nothing(checkers: Checkers) -> None:
    txn = checkers.txns.begin(TxnName("p", 0, 1))
    checkers.written(PARTITION, "p/0/1/0", "p/0/1/1")
    checkers.written(OTHER, "p/0/1/2")
    checkers.txns.acknowledged(txn, PARTITION, 0, ["p/0/1/0", "p/0/1/1"])
    txn.requested.add(True)
    checkers.marked(PARTITION, committed=True)
    checkers.txns.ended(txn, committed=True)
    assert checkers.txns.lost() == []
    checkers.marked(OTHER, committed=True)
    assert checkers.txns.visible(PARTITION, 0, 9, committed=True) == [(0, "p/0/1/0"), (1, "p/0/1/1")]
    assert checkers.rule == ""


def test_records_before_their_marker_may_be_read_when_the_commit_is_decided(checkers: Checkers) -> None:
    checkers.written(PARTITION, "x/0/1/0", "x/0/1/1")
    assert checkers.txns.visible(PARTITION, 0, 9, committed=True) == []
    assert checkers.txns.undecided(PARTITION, 1, 9) == {"x/0/1/1": "x"}
    decided = []
    for status in (ONGOING, PREPARE_COMMIT):
        checkers.moved(status, 3)
        decided.append(checkers.states.is_committed("x"))
    assert decided == [False, True]
    assert not checkers.states.is_committed("y")
    checkers.txns.txns[TxnName("x", 0, 1)].requested.add(True)
    checkers.marked(PARTITION, committed=True)
    assert checkers.txns.undecided(PARTITION, 0, 9) == {}


def test_what_clients_report_is_in_the_history(checkers: Checkers) -> None:
    txns = checkers.txns
    txn = txns.begin(TxnName("p", 0, 1), "g")
    txns.history.reads_committed("reader")
    txns.read("p/0/1", {OTHER: [(0, "in")]}, txn)
    txns.sent(None, "source", ["in"])
    txns.sent(txn, "p/0", ["p/0/1/0", "p/0/1/1"])
    checkers.written(PARTITION, "p/0/1/0", "p/0/1/1")
    txns.acknowledged(txn, PARTITION, 0, ["p/0/1/0", "p/0/1/1"])
    txns.end_requested(txn, committed=True)
    txns.ended(txn, committed=True)
    txns.read("reader", {PARTITION: [(0, "p/0/1/0")]})
    assert [each.kind for each in txns.history.anomalies()] == [Kind.LOST_WRITE]
    txns.read("reader", {PARTITION: [(1, "p/0/1/1")]})
    assert txns.history.anomalies() == []
    again = txns.begin(TxnName("p", 1, 1), "g")
    txns.read("p/1/1", {OTHER: [(0, "in")]}, again)
    txns.ended(again, committed=True)
    assert [each.kind for each in txns.history.anomalies()] == [Kind.LOST_UPDATE]


def test_a_duplicated_record_is_reported(checkers: Checkers) -> None:
    checkers.written(PARTITION, "p/0/1/0")
    checkers.written(PARTITION, "p/0/1/0")
    assert checkers.rule.startswith("T1")


def test_a_missing_acknowledged_record_is_reported(checkers: Checkers) -> None:
    checkers.txns.acknowledged(None, PARTITION, 0, ["p/0/1/0"])
    assert checkers.rule.startswith("R1 T1")


def test_a_record_of_a_fenced_producer_is_reported(checkers: Checkers) -> None:
    checkers.txns.initialised("p", Epoch(7, 1 << 14), {PARTITION: 0})
    checkers.written(PARTITION, "p/0/1/0")
    assert checkers.rule.startswith("T3")


def test_an_earlier_process_that_initialised_later_is_not_fenced(checkers: Checkers) -> None:
    checkers.txns.initialised("p", Epoch(-2, 0), {PARTITION: 0})
    checkers.written(PARTITION, "p/0/1/0")
    assert checkers.rule == ""


def test_records_of_two_transactions_before_one_marker_are_reported(checkers: Checkers) -> None:
    checkers.written(PARTITION, "p/0/1/0")
    checkers.written(PARTITION, "p/0/2/0")
    assert checkers.rule.startswith("T6")


def test_a_transaction_with_different_markers_is_reported(checkers: Checkers) -> None:
    checkers.txns.begin(TxnName("p", 0, 1)).requested.add(True)
    checkers.written(PARTITION, "p/0/1/0")
    checkers.written(OTHER, "p/0/1/1")
    checkers.marked(PARTITION, committed=True)
    checkers.marked(OTHER, committed=False)
    assert checkers.rule.startswith("T4")


def test_a_transaction_that_was_committed_without_request_is_reported(checkers: Checkers) -> None:
    checkers.written(PARTITION, "p/0/1/0")
    checkers.marked(PARTITION, committed=True)
    assert checkers.rule.startswith("T4")


def test_a_marker_that_differs_from_the_response_is_reported(checkers: Checkers) -> None:
    txn = checkers.txns.begin(TxnName("p", 0, 1))
    checkers.written(PARTITION, "p/0/1/0")
    checkers.txns.ended(txn, committed=True)
    checkers.marked(PARTITION, committed=False)
    assert checkers.rule.startswith("T4")


def test_a_prepared_transaction_that_ends_without_request_is_reported(checkers: Checkers) -> None:
    checkers.txns.begin(TxnName("p", 0, 1)).prepared = True
    checkers.written(PARTITION, "p/0/1/0")
    checkers.marked(PARTITION, committed=False)
    assert checkers.rule.startswith("T5")


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_late_request_for_an_epoch_may_abort_a_prepared_transaction(
    checkers: Checkers, is_answered: bool
) -> None:
    checkers.txns.init_requested("p")
    if is_answered:
        checkers.txns.init_answered("p")
    checkers.txns.begin(TxnName("p", 0, 1)).prepared = True
    checkers.written(PARTITION, "p/0/1/0")
    checkers.marked(PARTITION, committed=False)
    assert (checkers.kernel.violation is not None) == is_answered


def test_a_lost_record_of_a_committed_transaction_is_reported(checkers: Checkers) -> None:
    txn = checkers.txns.begin(TxnName("p", 0, 1))
    txn.reported = True
    txn.acknowledged["p/0/1/0"] = PARTITION
    assert checkers.txns.lost() == ["p/0/1/0"]


def test_a_skipped_transaction_state_is_reported(checkers: Checkers) -> None:
    checkers.moved(ONGOING, 1)
    checkers.moved(COMPLETE_COMMIT, 1)
    assert checkers.rule.startswith("T4")


def test_a_decreasing_producer_epoch_is_reported(checkers: Checkers) -> None:
    checkers.moved(ONGOING, 2)
    checkers.moved(PREPARE_ABORT, 1)
    assert checkers.rule.startswith("T3")


def test_correct_commits_violate_nothing(checkers: Checkers) -> None:
    for number in (1, 2):
        checkers.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
        checkers.committed(f"c{number}", number)
        checkers.offsets.acknowledged(f"c{number}")
    checkers.offsets.fetched(SLOT, 2, 0, stable=True)
    assert checkers.rule == ""


def test_a_decreasing_committed_offset_is_reported(checkers: Checkers) -> None:
    for number in (2, 1):
        checkers.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
        checkers.committed(f"c{number}", number)
    assert checkers.rule.startswith("G4")


def test_an_abandoned_commit_may_decrease_the_offset(checkers: Checkers) -> None:
    for number in (2, 1):
        checkers.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
    checkers.offsets.abandoned("c1")
    checkers.kernel.now_us += 1
    checkers.committed("c2", 2)
    checkers.committed("c1", 1)
    assert checkers.rule == ""


def test_a_missing_acknowledged_commit_is_reported(checkers: Checkers) -> None:
    checkers.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    checkers.offsets.acknowledged("c")
    assert checkers.rule.startswith("G4")


def test_a_commit_without_request_is_reported(checkers: Checkers) -> None:
    checkers.committed("unknown", 1)
    assert checkers.rule.startswith("G4")


def test_a_fetched_offset_that_was_never_committed_is_reported(checkers: Checkers) -> None:
    checkers.offsets.fetched(SLOT, 5, 0, stable=False)
    assert checkers.rule.startswith("G4")


def test_a_commit_of_an_old_generation_is_reported(checkers: Checkers) -> None:
    checkers.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    checkers.generation(2)
    checkers.committed("c", 1)
    assert checkers.rule.startswith("G3")


def test_a_decreasing_generation_is_reported(checkers: Checkers) -> None:
    checkers.generation(2)
    checkers.generation(1)
    assert checkers.rule.startswith("G2")


def test_a_commit_of_unprocessed_records_is_reported(checkers: Checkers) -> None:
    checkers.offsets.processed[SLOT] = 3
    checkers.offsets.requested("c", Commit(SLOT, 4, "m", 1))
    checkers.committed("c", 4)
    assert checkers.rule.startswith("G6")


def test_a_stable_offset_during_an_open_transaction_is_reported(checkers: Checkers) -> None:
    checkers.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    checkers.committed("c", 1, producer=7)
    checkers.kernel.now_us += 10
    checkers.offsets.fetched(SLOT, -1, checkers.kernel.now_us, stable=True)
    assert checkers.rule.startswith("T7")


def test_offsets_of_an_aborted_transaction_are_not_visible(checkers: Checkers) -> None:
    checkers.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    checkers.committed("c", 1, producer=7)
    header, _ = checkers.batch(OFFSETS_PARTITION, [NewRecord(b"", b"")], 7)
    checkers.offsets.marker(OFFSETS_PARTITION, header, committed=False)
    assert checkers.offsets.committed(SLOT) == -1


def test_a_partition_that_is_assigned_to_two_members_is_reported(checkers: Checkers) -> None:
    topics = [group_keys.TopicPartitions(partitions=[0])]
    for member in ("a", "b"):
        key = group_keys.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member)
        value = group_keys.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1, assigned_partitions=topics
        )
        checkers.logged(LogRecord(key, value))
    assert checkers.rule.startswith("G1")


def test_two_claims_at_the_same_time_are_reported(checkers: Checkers) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1000, None)
    checkers.ownership.claim("g", "b", [PARTITION], 1000, None)
    assert checkers.rule.startswith("G1")


def test_an_expired_claim_does_not_conflict(checkers: Checkers) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1000, None)
    checkers.kernel.now_us = 1001
    checkers.ownership.claim("g", "b", [PARTITION], 2000, None)
    assert checkers.rule == ""


def test_a_heartbeat_extends_a_claim(checkers: Checkers) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1000, None)
    checkers.kernel.now_us = 999
    checkers.ownership.extend("g", "a", [PARTITION], 2000)
    checkers.kernel.now_us = 1001
    checkers.ownership.claim("g", "b", [PARTITION], 3000, None)
    assert checkers.rule == "G1 a partition has one owner at a time"


@pytest.mark.parametrize("unverified", [False, True])
def test_an_unverified_heartbeat_does_not_make_a_claim_that_has_ended_exclusive(
    checkers: Checkers, unverified: bool
) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1000, None)
    checkers.kernel.now_us = 1000
    checkers.ownership.extend("g", "a", [PARTITION], 2000, unverified=unverified)
    assert checkers.ownership.owners("g", PARTITION) == ["a"]
    checkers.ownership.claim("g", "b", [PARTITION], 3000, None)
    assert bool(checkers.rule) is not unverified


def test_a_claim_is_exclusive_again_when_it_is_renewed(checkers: Checkers) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1000, None)
    checkers.kernel.now_us = 1000
    checkers.ownership.extend("g", "a", [PARTITION], 2000, unverified=True)
    checkers.ownership.claim("g", "a", [PARTITION], 2500, None)
    checkers.ownership.claim("g", "b", [PARTITION], 3000, None)
    assert checkers.rule.startswith("G1")


def test_two_owners_in_one_generation_are_reported(checkers: Checkers) -> None:
    checkers.ownership.claim("g", "a", [PARTITION], 1, (1, "a"))
    checkers.kernel.now_us = 10
    checkers.ownership.claim("g", "b", [PARTITION], 20, (1, "b"))
    assert checkers.rule.startswith("G1")
