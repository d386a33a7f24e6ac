"""Tests of what clients of a chaos run report: journals of copiers, and the output of the Java client."""

from __future__ import annotations

import json
from pathlib import Path

from ottla.base.ids import TopicPartition
from ottla.testing.history import History, Kind
from tests.chaos.copy_history import copy_history, original_value
from tests.chaos.java_load import JavaLoad

IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
START = [
    ["began", "7-1", 1.0],
    ["read", "7-1", 1.1, 0, 0, "v 1"],
    ["sent", "7-1", 1.2, "v 1@7-1"],
    ["acknowledged", "7-1", 1.3, 0, 0, "v 1@7-1"],
]
COMMIT = [["requested", "7-1", 1.4], ["committed", "7-1", 1.5]]


def history_of(events: list[list[object]], *copies: tuple[int, bytes]) -> History:
    history = copy_history((json.dumps(event) + "\n" for event in events), "in", "out", "copiers")
    history.sent("p", b"v 1")
    history.acknowledged(b"v 1", IN, 0)
    history.reads_committed("reader")
    for offset, value in copies:
        history.read("reader", OUT, offset, value)
    return history


def kinds(history: History) -> set[Kind]:
    return {each.kind for each in history.anomalies()}


def test_a_copy() -> None:
    history = history_of([*START, *COMMIT], (0, b"v 1@7-1"))
    assert kinds(history) == set()
    assert history.committed_count == 1
    assert original_value(b"v@1@7-1") == b"v@1"


def test_a_copy_that_is_lost() -> None:
    assert kinds(history_of([*START, *COMMIT])) == {Kind.LOST_WRITE}


def test_a_copy_that_was_aborted() -> None:
    events = [*START, ["aborted", "7-1", 1.5]]
    assert kinds(history_of(events)) == set()
    assert kinds(history_of(events, (0, b"v 1@7-1"))) == {Kind.ABORTED_READ}


def test_a_record_that_is_copied_twice() -> None:
    again = [[event, "8-1", *[str(fact).replace("7-1", "8-1") if isinstance(fact, str) else fact for fact in rest]]
             for event, _, *rest in [*START, *COMMIT]]  # fmt: skip
    again[3][4] = 2
    history = history_of([*START, *COMMIT, *again], (0, b"v 1@7-1"), (2, b"v 1@8-1"))
    assert Kind.LOST_UPDATE in kinds(history)


def test_an_incomplete_line_is_left_out() -> None:
    lines = [json.dumps(START[0]) + "\n", '["requested", "7-']
    assert copy_history(lines, "in", "out", "copiers").committed_count == 0


def test_the_output_of_the_java_client(tmp_path: Path) -> None:
    load = JavaLoad("", "in", 2, rate=1, errors=tmp_path / "err", command=["java"])
    for line in (
        "sent JavaLoad 1",
        "sent JavaLoad 2",
        "acknowledged 1 0 JavaLoad 1",
        "acknowledged 0 0 JavaLoad 2",
        "assigned",
        "read 1 0 JavaLoad 1",
        "read 0 0 JavaLoad 2",
        "finished",
    ):
        load.follow(line)
    assert (load.acknowledged, load.finished) == (2, True)
    assert load.seen == {(1, 0), (0, 0)}
    assert load.history.anomalies() == []
    load.follow("read 0 0 JavaLoad 3")
    assert {each.kind for each in load.history.anomalies()} >= {Kind.INCONSISTENT_OFFSET}
