"""The state in the log: who wins, and that compaction does not change it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.sink.commit_log import (
    CommitEntry,
    CommitLogDamaged,
    CommitLogState,
    CommitRecord,
    PreparedTransaction,
    State,
    decode_record,
    encode_value,
    key_of,
)


def replayed(log: list[CommitRecord]) -> CommitLogState:
    state = CommitLogState()
    for record in log:
        state.apply(record)
    return state


def test_the_first_of_two_that_know_the_same_wins() -> None:
    entry = CommitEntry(1, State.DONE)
    state = CommitLogState()
    assert state.apply(CommitRecord(0, "a", -1, CommitEntry(0, State.DONE)))
    assert state.apply(CommitRecord(1, "a", 0, entry))
    assert not state.apply(CommitRecord(2, "b", 0, CommitEntry(1, State.PREPARED)))
    assert state.entry == entry
    assert state.has("a", 0, entry)
    assert not state.has("b", 0, entry)
    assert not state.has("a", 0, CommitEntry(1, State.PREPARED)), "one that was given up, and came after all"
    assert state.end == 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_compaction_keeps_what_counts(steps: list[tuple[str, bool]], cleanings: list[int]) -> None:
    """Runs append after what they have read, at least since their last record; sometimes old records are removed."""
    log: list[CommitRecord] = []
    kept: list[CommitRecord] = []
    known = {"a": -1, "b": -1, "c": -1}
    for offset, (run, reads) in enumerate(steps):
        if reads:
            known[run] = replayed(kept).end
        record = CommitRecord(offset, run, known[run], CommitEntry(offset, State.DONE))
        log.append(record)
        kept.append(record)
        known[run] = replayed(kept).end
        if offset in cleanings:
            last = {each.run: each.offset for each in kept}
            kept = [each for each in kept if last[each.run] == each.offset]
        assert replayed(kept).current == replayed(log).current
        # What counts is a chain: each record after the one before it.
        state = CommitLogState()
        chain = [each for each in log if state.apply(each)]
        assert all(later.after == earlier.offset for earlier, later in pairwise(chain))


def test_an_entry_survives_the_log() -> None:
    entry = CommitEntry(
        7, State.PREPARED, (PreparedTransaction("id", 1, 2), PreparedTransaction("other", 3, 4))
    )
    record = decode_record("p.query", 9, key_of("p.query", "run"), encode_value(4, entry))
    assert record == CommitRecord(9, "run", 4, entry)


def test_other_queries_are_left_alone() -> None:
    value = encode_value(-1, CommitEntry(0, State.DONE))
    assert decode_record("query", 0, key_of("query-2", "run"), value) is None
    assert decode_record("query", 0, None, value) is None


def test_a_record_that_cannot_be_decoded_is_reported() -> None:
    with pytest.raises(CommitLogDamaged, match="offset 5"):
        decode_record("query", 5, key_of("query", "run"), b"{}")
