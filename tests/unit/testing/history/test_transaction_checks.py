"""Tests of the history checker with transactions: one history made by hand for each class of anomalies."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import TopicPartition
from ottla.testing.history.events import Kind
from ottla.testing.history.history import History

P0, P1 = TopicPartition("scores", 0), TopicPartition("scores", 1)
IN = TopicPartition("matches", 0)


class Script:
    """Writes a history: each call is one event, later than all before. Offsets are those of one log per partition."""

    def __init__(self) -> None:
        ticks = itertools.count()
        self.history = History(lambda: float(next(ticks)))
        self.history.reads_committed("reader")
        self.ends = {P0: 0, P1: 0, IN: 0}

    def begin(self, name: str, producer: str = "p", group: str | None = None) -> Script:
        self.history.began(name, producer, group)
        return self

    def write(self, name: str, value: bytes, partition: TopicPartition = P0, producer: str = "p") -> Script:
        self.history.sent(producer, value, name or None)
        self.history.acknowledged(value, partition, self.ends[partition])
        self.ends[partition] += 1
        return self

    def end(self, name: str, *, committed: bool = True) -> Script:
        if committed:
            self.history.commit_requested(name)
        self.history.ended(name, committed=committed)
        self.ends[P0] += 1  # the marker
        self.ends[P1] += 1
        return self

    def read(
        self,
        *reads: tuple[int, bytes],
        at: TopicPartition = P0,
        by: str = "reader",
        within: str | None = None,
    ) -> Script:
        for offset, value in reads:
            self.history.read(by, at, offset, value, within)
        return self

    def kinds(self, *, isolated_writes: bool = False) -> set[Kind]:
        return {each.kind for each in self.history.anomalies(isolated_writes=isolated_writes)}


def two_transactions() -> Script:
    """Two transactions, one after the other, at offsets 0, 1 and 3, 4 of the first partition, and 0 of the second."""
    script = Script().begin("t1").write("t1", b"a").write("t1", b"b").write("t1", b"x", P1).end("t1")
    return script.begin("t2").write("t2", b"c").write("t2", b"d").end("t2")


def test_a_correct_history() -> None:
    script = two_transactions().begin("t3").write("t3", b"e").end("t3", committed=False)
    script.write("", b"f")
    script.read((0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"), (8, b"f")).read((0, b"x"), at=P1)
    script.read((0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"), (6, b"e"), (8, b"f"), by="uncommitted")
    assert script.kinds() == set()
    assert script.kinds(isolated_writes=True) == set()
    assert script.history.committed_count == 2


def test_an_unknown_end_may_be_either() -> None:
    for visible in (True, False):
        script = Script().begin("t1").write("t1", b"a").write("t1", b"b")
        script.history.commit_requested("t1")
        if visible:
            script.read((0, b"a"), (1, b"b"))
        assert script.kinds() == set()


def lost_write() -> Script:
    return two_transactions().read((0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"))


def lost_to_readers_of_committed_records() -> Script:
    return lost_write().read((0, b"x"), at=P1, by="uncommitted")


def duplicate() -> Script:
    return (
        two_transactions().read((0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"), (6, b"a")).read((0, b"x"), at=P1)
    )


def aborted_read() -> Script:
    script = Script().begin("t1").write("t1", b"a").end("t1", committed=False)
    return script.read((0, b"a"))


def read_before_the_commit_is_requested() -> Script:
    return Script().begin("t1").write("t1", b"a").read((0, b"a")).write("t1", b"b").end("t1").read((1, b"b"))


def read_without_a_commit() -> Script:
    return Script().begin("t1").write("t1", b"a").read((0, b"a"))


def read_of_a_part() -> Script:
    script = Script().begin("t1").write("t1", b"a").write("t1", b"x", P1)
    script.history.commit_requested("t1")
    return script.read((0, b"a"))


def cyclic_information_flow() -> Script:
    script = Script().begin("t1", "p").begin("t2", "q")
    script.write("t1", b"a", P0, "p").write("t2", b"x", P1, "q")
    script.read((0, b"x"), at=P1, by="p's consumer", within="t1")
    script.read((0, b"a"), by="q's consumer", within="t2")
    return script.end("t1").end("t2").read((0, b"a")).read((0, b"x"), at=P1)


def read_of_a_later_transaction() -> Script:
    script = Script().begin("t1").write("t1", b"a")
    script.read((2, b"b"), by="consumer", within="t1")
    return script.end("t1").begin("t2").write("t2", b"b").end("t2").read((0, b"a"), (2, b"b"))


def write_after_the_end() -> Script:
    script = Script().begin("t1", "p").write("t1", b"a", P0, "p")
    script.history.sent("p", b"late", "t1")
    script.end("t1").begin("t2", "q").write("t2", b"c", P0, "q").end("t2")
    return script.read((0, b"a"), (2, b"c"), (4, b"late"))


def write_cycle_of_concurrent_transactions() -> Script:
    script = Script().begin("t1", "p").begin("t2", "q")
    script.write("t1", b"a", P0, "p").write("t2", b"b", P0, "q")
    script.write("t2", b"y", P1, "q").write("t1", b"x", P1, "p")
    script.end("t1").end("t2")
    return script.read((0, b"a"), (1, b"b")).read((0, b"y"), (1, b"x"), at=P1)


def interleaved_records() -> Script:
    script = Script().begin("t1", "p").begin("t2", "q")
    script.write("t1", b"a", P0, "p").write("t2", b"b", P0, "q").write("t1", b"c", P0, "p")
    return script.end("t1").end("t2").read((0, b"a"), (1, b"b"), (2, b"c"))


def lost_update() -> Script:
    script = Script().write("", b"in", IN, "source")
    for name in ("t1", "t2"):
        script.begin(name, name, "copiers").read((0, b"in"), at=IN, by=f"consumer of {name}", within=name)
        script.write(name, f"copy of {name}".encode(), P0, name).end(name)
    return script.read((0, b"copy of t1"), (2, b"copy of t2"))


def three_inputs(*reads: int, within: tuple[str, ...]) -> Script:
    script = Script()
    for number in range(3):
        script.write("", b"in %d" % number, IN, "source")
    script.read(*((number, b"in %d" % number) for number in range(3)), at=IN, by="all")
    for name in dict.fromkeys(within):
        script.begin(name)
    for number, name in zip(reads, within, strict=True):
        script.read((number, b"in %d" % number), at=IN, by="consumer", within=name)
    for name in dict.fromkeys(within):
        script.end(name)
    return script


def send_order(*names: str) -> Script:
    script = Script()
    for number, name in enumerate(names):
        if name not in names[:number]:
            script.begin(name)
        script.history.sent("p", b"%d" % number, name)
    for name in dict.fromkeys(names):
        script.history.commit_requested(name)
    return script.read((0, b"1"), (1, b"0"))


CASES: list[tuple[Callable[[], Script], set[Kind]]] = [
    (lost_write, {Kind.LOST_WRITE}),
    (lost_to_readers_of_committed_records, {Kind.LOST_WRITE}),
    (duplicate, {Kind.DUPLICATE, Kind.WRITE_CYCLE, Kind.NON_MONOTONIC_SEND}),
    (aborted_read, {Kind.ABORTED_READ}),
    (read_before_the_commit_is_requested, {Kind.INTERMEDIATE_READ}),
    (read_without_a_commit, {Kind.INTERMEDIATE_READ}),
    (read_of_a_part, {Kind.INTERMEDIATE_READ}),
    (cyclic_information_flow, {Kind.CYCLIC_INFORMATION_FLOW}),
    (read_of_a_later_transaction, {Kind.CYCLIC_INFORMATION_FLOW}),
    (write_after_the_end, {Kind.WRITE_CYCLE}),
    (lost_update, {Kind.LOST_UPDATE}),
    (lambda: three_inputs(0, 2, within=("t1", "t1")), {Kind.INTERNAL_POLL_SKIP}),
    (lambda: three_inputs(0, 2, within=("t1", "t2")), {Kind.POLL_SKIP}),
    (lambda: three_inputs(1, 0, within=("t1", "t1")), {Kind.INTERNAL_NON_MONOTONIC_POLL}),
    (lambda: three_inputs(1, 0, within=("t1", "t2")), {Kind.NON_MONOTONIC_POLL}),
    (lambda: send_order("t1", "t1"), {Kind.INTERNAL_NON_MONOTONIC_SEND}),
    (lambda: send_order("t1", "t2"), {Kind.NON_MONOTONIC_SEND}),
]


@pytest.mark.parametrize(("history", "expected"), CASES)
def test_an_anomaly_is_found(history: Callable[[], Script], expected: set[Kind]) -> None:
    assert history().kinds() == expected


def test_isolated_writes_are_checked_only_on_request() -> None:
    assert write_cycle_of_concurrent_transactions().kinds() == set()
    assert write_cycle_of_concurrent_transactions().kinds(isolated_writes=True) == {Kind.WRITE_CYCLE}
    assert interleaved_records().kinds() == set()
    expected = {Kind.INTERNAL_SEND_SKIP, Kind.WRITE_CYCLE}
    assert interleaved_records().kinds(isolated_writes=True) == expected


def test_every_class_has_a_history() -> None:
    tested = {kind for _, kinds in CASES for kind in kinds} | {Kind.INTERNAL_SEND_SKIP}
    assert set(Kind) - tested == {Kind.INCONSISTENT_OFFSET, Kind.PHANTOM_READ}, "see test_history"


def test_a_record_of_an_aborted_transaction_is_not_skipped() -> None:
    script = two_transactions().begin("t3").write("t3", b"e").end("t3", committed=False).write("", b"f")
    script.read((6, b"e"), by="uncommitted")
    script.read((0, b"a"), (1, b"b"), (3, b"c"), (4, b"d"), (8, b"f")).read((0, b"x"), at=P1)
    assert script.kinds() == set()


def test_a_committed_record_is_skipped() -> None:
    script = two_transactions().read((0, b"a"), (3, b"c"), (4, b"d")).read((0, b"x"), at=P1)
    script.read((1, b"b"), by="uncommitted")
    assert script.kinds() == {Kind.POLL_SKIP, Kind.LOST_WRITE}


def test_names_of_transactions_are_unique() -> None:
    script = Script().begin("t1")
    with pytest.raises(ValueError, match="unique"):
        script.begin("t1")
    with pytest.raises(ValueError, match="unique"):
        script.history.extend(Script().begin("t1").history)


def test_merged_histories_keep_their_transactions() -> None:
    whole = History()
    whole.extend(cyclic_information_flow().history)
    assert {each.kind for each in whole.anomalies()} == {Kind.CYCLIC_INFORMATION_FLOW}


@given(sizes=st.lists(st.integers(1, 3), min_size=2, max_size=6), data=st.data())
def test_damage_to_transactions_is_always_found(sizes: list[int], data: st.DataObject) -> None:
    """Hide one record, repeat it, or show one of an aborted transaction."""
    script = Script()
    visible: list[tuple[int, bytes]] = []
    aborted: list[tuple[int, bytes]] = []
    for number, size in enumerate(sizes):
        committed = number % 2 == 0
        script.begin(f"t{number}")
        for each in range(size):
            value = b"%d/%d" % (number, each)
            (visible if committed else aborted).append((script.ends[P0], value))
            script.write(f"t{number}", value)
        script.end(f"t{number}", committed=committed)
    damage = data.draw(st.sampled_from(["hide", "repeat", "show"]))
    at = data.draw(st.integers(0, len(visible) - 1))
    if damage == "hide":
        del visible[at]
    elif damage == "repeat":
        visible.append((script.ends[P0], visible[at][1]))
    else:
        visible = sorted([*visible, data.draw(st.sampled_from(aborted))])
    assert script.read(*visible).kinds()
