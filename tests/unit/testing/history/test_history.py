"""Tests of the history checker without transactions: anomalies made by hand, and random damage to a correct history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import TopicPartition
from ottla.testing.history.events import Kind
from ottla.testing.history.history import History

P0, P1 = TopicPartition("matches", 0), TopicPartition("matches", 1)


def value(number: int) -> bytes:
    return f"v{number}".encode()


def sound(records: int = 4, *, reader: bool = True) -> History:
    history = History()
    for number in range(records):
        history.sent("p", value(number))
        history.acknowledged(value(number), P0, number)
    if reader:
        history.assigned("c")
        for number in range(records):
            history.read("c", P0, number, value(number))
    return history


def kinds(history: History, *, read_to_end: bool = True) -> set[Kind]:
    return {anomaly.kind for anomaly in history.anomalies(read_to_end=read_to_end)}


def test_a_correct_run_has_no_anomaly() -> None:
    assert kinds(sound()) == set()


def test_a_record_without_acknowledgement_may_be_in_the_log_or_not() -> None:
    history = sound(reader=False)
    history.sent("p", b"unknown, written")
    history.sent("p", b"unknown, not written")
    for number in range(4):
        history.read("c", P0, number, value(number))
    history.read("c", P0, 4, b"unknown, written")
    assert kinds(history) == set()


def test_two_consumers_have_independent_positions() -> None:
    history = sound()
    history.assigned("d")
    history.read("d", P0, 2, value(2))
    history.assigned("d")
    history.read("d", P0, 0, value(0))
    history.read("d", P0, 1, value(1))
    assert kinds(history) == set()


def test_lost_write() -> None:
    history = sound()
    history.sent("p", b"gone")
    history.acknowledged(b"gone", P0, 4)
    assert kinds(history) == {Kind.LOST_WRITE}
    assert kinds(history, read_to_end=False) == set()


def test_duplicate() -> None:
    history = sound()
    history.read("c", P0, 4, value(3))
    assert kinds(history) == {Kind.DUPLICATE}


def test_duplicate_across_partitions() -> None:
    history = sound()
    history.read("c", P1, 0, value(3))
    assert kinds(history) == {Kind.DUPLICATE}


def test_two_consumers_disagree_about_an_offset() -> None:
    history = sound()
    history.sent("p", b"other")
    history.read("d", P0, 1, b"other")
    assert kinds(history) == {Kind.INCONSISTENT_OFFSET}


def test_an_acknowledged_offset_contains_another_value() -> None:
    history = sound(reader=False)
    for offset, number in enumerate((0, 1, 2)):
        history.read("c", P0, offset, value(number))
    history.sent("p", b"other")
    history.read("c", P0, 3, b"other")
    assert kinds(history) == {Kind.INCONSISTENT_OFFSET, Kind.LOST_WRITE}


def test_phantom_read() -> None:
    history = sound()
    history.read("c", P0, 4, b"from nowhere")
    assert kinds(history) == {Kind.PHANTOM_READ}


def test_aborted_read() -> None:
    history = sound()
    history.sent("p", b"refused")
    history.refused(b"refused")
    history.read("c", P0, 4, b"refused")
    assert kinds(history) == {Kind.ABORTED_READ}


def test_a_poll_returns_to_an_earlier_offset() -> None:
    history = sound()
    history.read("c", P0, 2, value(2))
    assert kinds(history) == {Kind.NON_MONOTONIC_POLL}


def test_a_poll_skips_an_offset() -> None:
    history = sound()
    history.assigned("d")
    history.read("d", P0, 0, value(0))
    history.read("d", P0, 2, value(2))
    assert kinds(history) == {Kind.POLL_SKIP}


def test_sent_order_is_not_kept() -> None:
    history = History()
    for number in (0, 1, 2):
        history.sent("p", value(number))
    for offset, number in enumerate((0, 2, 1)):
        history.read("c", P0, offset, value(number))
    assert kinds(history) == {Kind.NON_MONOTONIC_SEND}


def test_order_between_producers_and_between_partitions_is_arbitrary() -> None:
    history = History()
    history.sent("p", b"p0")
    history.sent("q", b"q0")
    history.sent("p", b"p1")
    history.read("c", P0, 0, b"q0")
    history.read("c", P0, 1, b"p0")
    history.read("c", P1, 0, b"p1")
    assert kinds(history) == set()


def test_values_must_be_unique() -> None:
    history = History()
    history.sent("p", b"same")
    with pytest.raises(ValueError, match="unique"):
        history.sent("q", b"same")


def test_histories_of_several_threads_are_merged() -> None:
    whole, other = sound(), History()
    other.sent("q", b"q0")
    other.acknowledged(b"q0", P1, 0)
    whole.extend(other)
    assert kinds(whole) == {Kind.LOST_WRITE}
    assert (whole.sent_count, whole.acknowledged_count) == (5, 5)


@given(records=st.integers(3, 30), data=st.data())
def test_damage_to_a_correct_run_is_always_found(records: int, data: st.DataObject) -> None:
    """Drop, repeat, swap or replace one record that a consumer has read."""
    log = [value(number) for number in range(records)]
    at = data.draw(st.integers(0, records - 2), label="at")
    damage = data.draw(st.sampled_from(["drop", "repeat", "swap", "replace"]), label="damage")
    if damage == "drop":
        del log[at]
    elif damage == "repeat":
        log.insert(at + 1, log[at])
    elif damage == "swap":
        log[at], log[at + 1] = log[at + 1], log[at]
    else:
        log[at] = b"something else"
    history = sound(records, reader=False)
    for offset, seen in enumerate(log):
        history.read("c", P0, offset, seen)
    assert kinds(history)
