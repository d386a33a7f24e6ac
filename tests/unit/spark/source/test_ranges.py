"""Limits and ranges: each offset once, and every partition makes progress."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import TopicPartition
from ottla.spark.source.ranges import OffsetRange, count_new, limit_offsets, split_ranges

P = [TopicPartition("t", number) for number in range(4)]
sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=4)


def test_a_limit_is_shared_in_proportion() -> None:
    start = dict.fromkeys(P[:2], 0)
    assert limit_offsets(start, {P[0]: 900, P[1]: 100}, 100) == {P[0]: 90, P[1]: 10}


def test_a_limit_that_suffices_changes_nothing() -> None:
    assert limit_offsets({P[0]: 5}, {P[0]: 10, P[1]: 5}, 10) == {P[0]: 10, P[1]: 5}


def test_an_end_before_its_start_stays_as_it_is() -> None:
    assert limit_offsets({P[0]: 50, P[1]: 0}, {P[0]: 10, P[1]: 100}, 5) == {P[0]: 10, P[1]: 5}


@given(sizes, st.integers(1, 500), st.integers(0, 99))
def test_limits(counts: list[int], limit: int, first: int) -> None:
    start = dict.fromkeys(P[: len(counts)], first)
    end = {partition: first + count for partition, count in zip(P, counts, strict=False)}
    limited = limit_offsets(start, end, limit)
    assert count_new(start, limited) <= limit + len(counts)
    for partition, offset in end.items():
        assert start[partition] <= limited[partition] <= offset
        assert (limited[partition] > start[partition]) == (offset > start[partition])


@pytest.mark.parametrize(
    ("least", "most", "pieces"),
    [
        (3, None, [1, 1, 1]),
        (4, None, [2, 1, 1]),
        (7, None, [5, 1, 1]),
        (20, None, [18, 1, 1]),
        (9, 300, [8, 1, 1]),
    ],
)
def test_the_large_share_what_the_small_leave(least: int, most: int | None, pieces: list[int]) -> None:
    """As many tasks as Spark's connector makes of the same partitions."""
    whole = [OffsetRange(partition, 0, size) for partition, size in zip(P, (1000, 10, 1), strict=False)]
    cut = split_ranges(whole, partitions_min=least, records_max=most)
    assert [sum(piece.partition == partition for piece in cut) for partition in P[:3]] == pieces


@given(sizes, st.none() | st.integers(1, 40), st.none() | st.integers(1, 5_000))
def test_ranges_cover_each_offset_once(counts: list[int], least: int | None, most: int | None) -> None:
    whole = [OffsetRange(partition, 7, 7 + count) for partition, count in zip(P, counts, strict=False)]
    cut = split_ranges(whole, partitions_min=least, records_max=most)
    for part in whole:
        pieces = [piece for piece in cut if piece.partition == part.partition]
        assert [piece.start for piece in pieces] == [part.start, *[piece.end for piece in pieces]][
            : len(pieces)
        ]
        assert sum(piece.size for piece in pieces) == part.size
    assert all(0 < piece.size <= (most or piece.size) for piece in cut)
    if least is not None and most is None and sum(counts) >= least * len(counts):
        there = max(least, sum(count > 0 for count in counts))
        assert abs(len(cut) - there) <= len(counts) / 2, "one half per partition is lost or won by rounding"
