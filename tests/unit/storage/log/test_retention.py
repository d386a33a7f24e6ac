from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from ottla.storage.log.retention import FOREVER, RetentionRules, deletable_count

NOW = 1_000_000


class Piece(NamedTuple):
    """A segment as retention sees it."""

    base_offset: int
    size: int
    largest_timestamp: int


SEGMENTS = [
    Piece(0, 100, 10),
    Piece(10, 100, 20),
    Piece(20, 100, 30),
    Piece(30, 50, 40),
]
"""The last one is active and ends at 40."""


def count(
    *,
    ms: int = FOREVER,
    size: int = FOREVER,
    delete: bool = True,
    start: int = 0,
    high_watermark: int = 40,
    now: int = NOW,
    segments: Sequence[Piece] = SEGMENTS,
) -> int:
    return deletable_count(
        segments,
        RetentionRules(delete, ms, size),
        log_start_offset=start,
        high_watermark=high_watermark,
        log_end_offset=40,
        now_ms=now,
    )


def test_without_limits_nothing_is_deleted() -> None:
    assert count() == 0


@pytest.mark.parametrize(("now", "gone"), [(110, 0), (111, 1), (121, 2), (131, 3), (140, 3), (141, 4)])
def test_by_age_even_the_active_segment(now: int, gone: int) -> None:
    assert count(ms=100, now=now) == gone


def test_an_empty_active_segment_stays() -> None:
    assert count(ms=0, segments=[*SEGMENTS[:3], Piece(30, 0, 0)]) == 3


def test_an_old_segment_behind_a_young_one_stays() -> None:
    assert count(ms=100, now=141, segments=[Piece(0, 100, 99), *SEGMENTS[1:]]) == 0


@pytest.mark.parametrize(("size", "gone"), [(350, 0), (251, 0), (250, 1), (51, 2), (50, 3), (1, 3), (0, 4)])
def test_by_size_what_stays_is_never_less_than_allowed(size: int, gone: int) -> None:
    assert count(size=size) == gone


@pytest.mark.parametrize(("high_watermark", "gone"), [(0, 0), (19, 1), (20, 2), (39, 3), (40, 4)])
def test_nothing_above_the_high_watermark(high_watermark: int, gone: int) -> None:
    assert count(ms=0, high_watermark=high_watermark) == gone
    assert count(size=0, high_watermark=high_watermark) == gone


@pytest.mark.parametrize(("start", "gone"), [(9, 0), (10, 1), (29, 2), (30, 3), (40, 3)])
def test_below_the_log_start(start: int, gone: int) -> None:
    assert count(start=start, delete=False) == gone


def test_only_the_delete_policy_looks_at_age_and_size() -> None:
    assert count(ms=0, size=0, delete=False) == 0


def test_rules_add_up() -> None:
    """One goes for the log start, one for the size, one for its age."""
    assert count(start=10, size=150, ms=100, now=131) == 3


def test_the_age_of_a_segment_is_read_only_if_it_is_needed() -> None:
    asked: list[int] = []

    class Watched(Piece):
        def __getattribute__(self, name: str) -> object:
            if name == "largest_timestamp":
                asked.append(self.base_offset)
            return super().__getattribute__(name)

    watched = [Watched(*segment) for segment in SEGMENTS]
    assert count(size=0, start=10, segments=watched) == 4
    assert asked == []
    assert count(ms=100, now=125, segments=watched) == 2
    assert asked == [0, 10, 20]
