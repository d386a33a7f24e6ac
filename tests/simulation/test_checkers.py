"""The checkers of the simulation check: each rule is broken by hand once, and must be heard of."""

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
from ottla.testing.sim.checkers.groups import GroupChecker
from ottla.testing.sim.checkers.offsets import Commit, OffsetChecker, Slot
from ottla.testing.sim.checkers.ownership import OwnershipChecker
from ottla.testing.sim.checkers.transaction_states import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    TransactionStateChecker,
)
from ottla.testing.sim.checkers.transactions import Epoch, TransactionChecker, TxnName
from ottla.testing.sim.kernel.events import Kernel

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
HOME = TopicPartition("__consumer_offsets", 0)
SLOT = Slot("g", PLACE)


class Scene:
    """All ledgers of one run, and what a log would tell them."""

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
        self.offsets.data(HOME, *self.batch(HOME, made, producer))

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
        self.states.data(HOME, *self.batch(HOME, made))

    @property
    def rule(self) -> str:
        """Which invariant was violated, by its number."""
        return "" if self.kernel.violation is None else self.kernel.violation.rule


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_nothing_is_objected_to_a_transaction_that_went_well(scene: Scene) -> None:
    txn = scene.txns.begin(TxnName("p", 0, 1))
    scene.written(PLACE, "p/0/1/0", "p/0/1/1")
    scene.written(OTHER, "p/0/1/2")
    scene.txns.acknowledged(txn, PLACE, 0, ["p/0/1/0", "p/0/1/1"])
    txn.requested.add(True)
    scene.marked(PLACE, committed=True)
    scene.txns.ended(txn, committed=True)
    assert scene.txns.lost() == []
    scene.marked(OTHER, committed=True)
    assert scene.txns.visible(PLACE, 0, 9, committed=True) == [(0, "p/0/1/0"), (1, "p/0/1/1")]
    assert scene.rule == ""


def test_a_record_twice(scene: Scene) -> None:
    scene.written(PLACE, "p/0/1/0")
    scene.written(PLACE, "p/0/1/0")
    assert scene.rule.startswith("T1")


def test_an_acknowledged_record_that_is_not_there(scene: Scene) -> None:
    scene.txns.acknowledged(None, PLACE, 0, ["p/0/1/0"])
    assert scene.rule.startswith("R1 T1")


def test_a_zombie_that_writes(scene: Scene) -> None:
    scene.txns.initialised("p", Epoch(7, 1 << 14), {PLACE: 0})
    scene.written(PLACE, "p/0/1/0")
    assert scene.rule.startswith("T3")


def test_an_earlier_process_that_asked_later_is_no_zombie(scene: Scene) -> None:
    scene.txns.initialised("p", Epoch(-2, 0), {PLACE: 0})
    scene.written(PLACE, "p/0/1/0")
    assert scene.rule == ""


def test_two_transactions_in_one(scene: Scene) -> None:
    scene.written(PLACE, "p/0/1/0")
    scene.written(PLACE, "p/0/2/0")
    assert scene.rule.startswith("T6")


def test_ends_that_differ(scene: Scene) -> None:
    scene.txns.begin(TxnName("p", 0, 1)).requested.add(True)
    scene.written(PLACE, "p/0/1/0")
    scene.written(OTHER, "p/0/1/1")
    scene.marked(PLACE, committed=True)
    scene.marked(OTHER, committed=False)
    assert scene.rule.startswith("T4")


def test_a_commit_that_nobody_asked_for(scene: Scene) -> None:
    scene.written(PLACE, "p/0/1/0")
    scene.marked(PLACE, committed=True)
    assert scene.rule.startswith("T4")


def test_an_end_that_was_told_otherwise(scene: Scene) -> None:
    txn = scene.txns.begin(TxnName("p", 0, 1))
    scene.written(PLACE, "p/0/1/0")
    scene.txns.ended(txn, committed=True)
    scene.marked(PLACE, committed=False)
    assert scene.rule.startswith("T4")


def test_a_prepared_transaction_that_ends_by_itself(scene: Scene) -> None:
    scene.txns.begin(TxnName("p", 0, 1)).prepared = True
    scene.written(PLACE, "p/0/1/0")
    scene.marked(PLACE, committed=False)
    assert scene.rule.startswith("T5")


def test_an_acknowledged_record_of_a_committed_transaction_that_is_lost(scene: Scene) -> None:
    txn = scene.txns.begin(TxnName("p", 0, 1))
    txn.reported = True
    txn.acknowledged["p/0/1/0"] = PLACE
    assert scene.txns.lost() == ["p/0/1/0"]


def test_a_transaction_that_skips_a_state(scene: Scene) -> None:
    scene.moved(ONGOING, 1)
    scene.moved(COMPLETE_COMMIT, 1)
    assert scene.rule.startswith("T4")


def test_a_producer_whose_epoch_goes_back(scene: Scene) -> None:
    scene.moved(ONGOING, 2)
    scene.moved(PREPARE_ABORT, 1)
    assert scene.rule.startswith("T3")


def test_commits_that_went_well(scene: Scene) -> None:
    for number in (1, 2):
        scene.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
        scene.committed(f"c{number}", number)
        scene.offsets.acknowledged(f"c{number}")
    scene.offsets.fetched(SLOT, 2, 0, stable=True)
    assert scene.rule == ""


def test_an_offset_that_goes_back(scene: Scene) -> None:
    for number in (2, 1):
        scene.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
        scene.committed(f"c{number}", number)
    assert scene.rule.startswith("G4")


def test_a_late_commit_may_bring_an_offset_back(scene: Scene) -> None:
    for number in (2, 1):
        scene.offsets.requested(f"c{number}", Commit(SLOT, number, "m", 1))
    scene.offsets.abandoned("c1")
    scene.kernel.now_us += 1
    scene.committed("c2", 2)
    scene.committed("c1", 1)
    assert scene.rule == ""


def test_an_acknowledged_commit_that_is_not_there(scene: Scene) -> None:
    scene.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    scene.offsets.acknowledged("c")
    assert scene.rule.startswith("G4")


def test_a_commit_nobody_asked_for(scene: Scene) -> None:
    scene.committed("who?", 1)
    assert scene.rule.startswith("G4")


def test_a_fetched_offset_that_never_was(scene: Scene) -> None:
    scene.offsets.fetched(SLOT, 5, 0, stable=False)
    assert scene.rule.startswith("G4")


def test_a_commit_of_an_old_generation(scene: Scene) -> None:
    scene.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    scene.generation(2)
    scene.committed("c", 1)
    assert scene.rule.startswith("G3")


def test_a_generation_that_goes_back(scene: Scene) -> None:
    scene.generation(2)
    scene.generation(1)
    assert scene.rule.startswith("G2")


def test_a_commit_of_what_was_not_processed(scene: Scene) -> None:
    scene.offsets.processed[SLOT] = 3
    scene.offsets.requested("c", Commit(SLOT, 4, "m", 1))
    scene.committed("c", 4)
    assert scene.rule.startswith("G6")


def test_a_stable_offset_in_spite_of_an_open_transaction(scene: Scene) -> None:
    scene.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    scene.committed("c", 1, producer=7)
    scene.kernel.now_us += 10
    scene.offsets.fetched(SLOT, -1, scene.kernel.now_us, stable=True)
    assert scene.rule.startswith("T7")


def test_offsets_of_an_aborted_transaction_do_not_count(scene: Scene) -> None:
    scene.offsets.requested("c", Commit(SLOT, 1, "m", 1))
    scene.committed("c", 1, producer=7)
    header, _ = scene.batch(HOME, [NewRecord(b"", b"")], 7)
    scene.offsets.marker(HOME, header, committed=False)
    assert scene.offsets.committed(SLOT) == -1


def test_two_members_that_hold_one_partition(scene: Scene) -> None:
    topics = [group_keys.TopicPartitions(partitions=[0])]
    for member in ("a", "b"):
        key = group_keys.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member)
        value = group_keys.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1, assigned_partitions=topics
        )
        scene.logged(LogRecord(key, value))
    assert scene.rule.startswith("G1")


def test_two_claims_at_a_time(scene: Scene) -> None:
    scene.ownership.claim("g", "a", [PLACE], 1000, None)
    scene.ownership.claim("g", "b", [PLACE], 1000, None)
    assert scene.rule.startswith("G1")


def test_a_claim_that_ran_out_harms_nobody(scene: Scene) -> None:
    scene.ownership.claim("g", "a", [PLACE], 1000, None)
    scene.kernel.now_us = 1001
    scene.ownership.claim("g", "b", [PLACE], 2000, None)
    assert scene.rule == ""


def test_two_owners_in_one_generation(scene: Scene) -> None:
    scene.ownership.claim("g", "a", [PLACE], 1, (1, "a"))
    scene.kernel.now_us = 10
    scene.ownership.claim("g", "b", [PLACE], 20, (1, "b"))
    assert scene.rule.startswith("G1")
