"""The register in the log: who wins, and that compaction does not change it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.ledger import (
    Entry,
    LedgerDamaged,
    LedgerRecord,
    Prepared,
    Register,
    State,
    decode_record,
    encode_value,
    key_of,
)


def replayed(log: list[LedgerRecord]) -> Register:
    register = Register()
    for record in log:
        register.take(record)
    return register


def test_the_first_of_two_that_know_the_same_wins() -> None:
    entry = Entry(1, State.DONE)
    register = Register()
    assert register.take(LedgerRecord(0, "a", -1, Entry(0, State.DONE)))
    assert register.take(LedgerRecord(1, "a", 0, entry))
    assert not register.take(LedgerRecord(2, "b", 0, Entry(1, State.PREPARED)))
    assert register.entry == entry
    assert register.has("a", 0)
    assert not register.has("b", 0)
    assert register.end == 1


def test_a_mark_tells_that_the_present_is_done_and_nothing_else() -> None:
    register = Register()
    mark = LedgerRecord(1, "a", 0, Entry(7, State.DONE), is_mark=True)
    assert not register.take(mark)
    assert register.take(LedgerRecord(0, "a", -1, Entry(7, State.PREPARED, (Prepared("id", 1, 2),))))
    assert register.take(mark)
    assert register.entry == Entry(7, State.DONE)
    assert register.end == 0, "nothing comes after it"
    following = Entry(8, State.PREPARED)
    assert register.take(LedgerRecord(2, "a", 0, following))
    assert not register.take(mark), "late"
    assert register.entry == following


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["looks", "goes on", "marks"])), max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_compaction_keeps_what_counts(steps: list[tuple[str, str]], cleanings: list[int]) -> None:
    """Runs append after what they have read, at least since their last record; sometimes old records are removed.

    Marks are appended at any time after what they mark, also when their run, or another one, has gone on.
    """
    log: list[LedgerRecord] = []
    kept: list[LedgerRecord] = []
    known = {"a": -1, "b": -1, "c": -1}
    counted: dict[str, list[LedgerRecord]] = {"a": [], "b": [], "c": []}
    for run, how in steps:
        offset = len(log)
        if how == "marks":
            if not counted[run]:
                continue
            of = counted[run].pop()
            record = LedgerRecord(offset, run, of.offset, Entry(of.entry.batch, State.DONE), is_mark=True)
        else:
            if how == "looks":
                known[run] = replayed(kept).end
            record = LedgerRecord(offset, run, known[run], Entry(offset, State.PREPARED))
        log.append(record)
        kept.append(record)
        if how != "marks":
            known[run] = replayed(kept).end
            if replayed(log).present == record:
                counted[run].append(record)
        if offset in cleanings:
            last = {key_of("q", each.run, is_mark=each.is_mark): each.offset for each in kept}
            kept = [each for each in kept if each.offset in last.values()]
        assert replayed(kept).present == replayed(log).present
        assert replayed(kept).entry in (replayed(log).entry, getattr(replayed(log).present, "entry", None))
        # What counts is a chain: each record after the one before it.
        register = Register()
        chain = [each for each in log if register.take(each) and not each.is_mark]
        assert all(later.after == earlier.offset for earlier, later in pairwise(chain))


def test_an_entry_survives_the_log() -> None:
    entry = Entry(7, State.PREPARED, (Prepared("id", 1, 2), Prepared("other", 3, 4)))
    record = decode_record("p.query", 9, key_of("p.query", "run"), encode_value(4, entry))
    assert record == LedgerRecord(9, "run", 4, entry)
    done = Entry(7, State.DONE)
    mark = decode_record("p.query", 10, key_of("p.query", "run", is_mark=True), encode_value(9, done))
    assert mark == LedgerRecord(10, "run", 9, done, is_mark=True)


def test_other_queries_are_left_alone() -> None:
    value = encode_value(-1, Entry(0, State.DONE))
    assert decode_record("query", 0, key_of("query-2", "run"), value) is None
    assert decode_record("query", 0, None, value) is None


def test_a_record_that_cannot_be_read_is_told() -> None:
    with pytest.raises(LedgerDamaged, match="offset 5"):
        decode_record("query", 5, key_of("query", "run"), b"{}")
