"""The checker of group histories finds each anomaly, and accepts what groups may do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.group_history import GroupHistory, Kind

Line = dict[str, Any]


def by(member: str, event: str, *partitions: int, **facts: object) -> Line:
    return {"member": member, "event": event, "partitions": list(partitions), **facts}


def processed(member: str, partition: int, *offsets: int) -> Line:
    return {"member": member, "event": "processed", "partition": partition, "offsets": list(offsets)}


def committed(member: str, partition: int, offset: int) -> Line:
    return {"member": member, "event": "committed", "partition": partition, "offset": offset}


def seen(**offsets: int) -> list[Line]:
    found = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    return [{"event": "asked"}, {"event": "observed", "offsets": found}]


A_HAS_ALL = [by("a", "assigned", 0, 1), processed("a", 0, 0, 1), committed("a", 0, 2)]

GOOD: dict[str, list[Line]] = {
    "eager hand-over": [
        *A_HAS_ALL,
        by("a", "revoked", 0, 1),
        by("a", "assigned", 1, generation=2),
        by("b", "assigned", 0, generation=2),
        processed("b", 0, 2, 3),
        committed("b", 0, 4),
        *seen(p0=4),
    ],
    "cooperative hand-over": [*A_HAS_ALL, by("a", "revoked", 0), by("b", "assigned", 0)],
    "a killed member's uncommitted records are processed again": [
        *A_HAS_ALL,
        processed("a", 0, 2, 3),
        {"event": "killed", "members": ["a"]},
        by("b", "assigned", 0, 1),
        processed("b", 0, 2, 3, 4),
        committed("b", 0, 5),
    ],
    "a paused member continues until it is notified": [
        *A_HAS_ALL,
        {"event": "paused", "members": ["a"]},
        by("b", "assigned", 0, 1),
        processed("b", 0, 2, 3, 4),
        committed("b", 0, 5),
        {"event": "resumed", "members": ["a"]},
        processed("a", 0, 2),
        {"member": "a", "event": "refused", "error": "unknown member"},
        by("a", "lost", 0, 1),
    ],
    "a member that was cut off for long loses what it had": [
        *A_HAS_ALL,
        {"event": "cut"},
        by("b", "assigned", 0, 1),
        processed("a", 0, 2),
        {"member": "a", "event": "refused", "error": "unknown member"},
        by("a", "lost", 0, 1),
    ],
    "a member that left owns nothing": [
        *A_HAS_ALL,
        {"member": "a", "event": "closed"},
        by("b", "assigned", 0),
    ],
}

BAD: dict[Kind, list[Line]] = {
    Kind.TWO_OWNERS: [*A_HAS_ALL, by("b", "assigned", 0)],
    Kind.TWO_OWNERS_IN_A_GENERATION: [
        by("a", "assigned", 0, generation=3),
        by("a", "revoked", 0),
        by("b", "assigned", 0, generation=3),
    ],
    Kind.PROCESSED_UNOWNED: [*A_HAS_ALL, by("a", "revoked", 0), processed("a", 0, 2)],
    Kind.WENT_BACK: [*A_HAS_ALL, by("a", "revoked", 0), by("b", "assigned", 0), processed("b", 0, 1)],
    Kind.SKIPPED: [*A_HAS_ALL, by("a", "revoked", 0), by("b", "assigned", 0), processed("b", 0, 3)],
    Kind.COMMIT_WENT_BACK: [*A_HAS_ALL, *seen(p0=1)],
    Kind.COMMITTED_UNPROCESSED: [*A_HAS_ALL, committed("a", 1, 5)],
}


@pytest.mark.parametrize("name", GOOD)
def test_what_a_group_may_do(name: str) -> None:
    history = GroupHistory()
    history.extend(GOOD[name])
    assert history.anomalies() == []


@pytest.mark.parametrize("kind", BAD)
def test_what_a_group_may_not_do(kind: Kind) -> None:
    history = GroupHistory()
    history.extend(BAD[kind])
    assert [one.kind for one in history.anomalies()] == [kind]


def test_a_member_with_an_event_after_it_was_cut_off_keeps_its_partitions() -> None:
    history = GroupHistory()
    heard = [processed("a", 0, 2), committed("a", 0, 3)]
    history.extend([*A_HAS_ALL, {"event": "cut"}, *heard, by("b", "assigned", 0)])
    assert [one.kind for one in history.anomalies()] == [Kind.TWO_OWNERS]


def test_a_short_outage_is_no_excuse() -> None:
    history = GroupHistory()
    history.extend([*A_HAS_ALL, {"event": "cut"}, {"event": "mended"}, by("b", "assigned", 0)])
    assert [one.kind for one in history.anomalies()] == [Kind.TWO_OWNERS]


def test_a_gap_within_an_ownership_is_found() -> None:
    history = GroupHistory()
    history.extend([by("a", "assigned", 0), processed("a", 0, 0, 2)])
    assert [one.kind for one in history.anomalies()] == [Kind.SKIPPED]


def test_a_commit_that_vanishes_is_found() -> None:
    history = GroupHistory()
    history.extend([*A_HAS_ALL, *seen(p0=2), *seen()])
    assert [one.kind for one in history.anomalies()] == [Kind.COMMIT_WENT_BACK]


def test_an_unprocessed_record_is_found() -> None:
    history = GroupHistory()
    history.extend(A_HAS_ALL)
    assert [(one.kind, one.partition) for one in history.anomalies({0: 3, 1: 0})] == [(Kind.UNPROCESSED, 0)]
    assert history.anomalies({0: 2, 1: 0}) == []
