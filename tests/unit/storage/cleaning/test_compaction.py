from __future__ import annotations

from dataclasses import dataclass

import pytest

from ottla.storage.cleaning.compaction import (
    Dirt,
    LogFacts,
    SegmentFacts,
    filthiest,
    group_segments,
    measure_dirt,
)

NOW = 1_000_000
NO_LAG = 2**63 - 1


@dataclass
class Facts:
    start: int = 0
    end: int = 40
    stable: int = 40
    min_lag: int = 0
    max_lag: int = NO_LAG
    ratio: float = 0.5

    def measure(self, checkpoint: int | None) -> Dirt:
        segments = [SegmentFacts(base, 100, 1_000 + base, 500 + base) for base in (0, 10, 20, 30)]
        facts = LogFacts(self.start, self.end, self.stable, segments, self.min_lag, self.max_lag, self.ratio)
        return measure_dirt(facts, checkpoint, NOW)


def span(dirt: Dirt) -> tuple[int, int]:
    return dirt.first_dirty_offset, dirt.first_uncleanable_offset


def test_everything_but_the_active_segment_can_be_cleaned() -> None:
    dirt = Facts().measure(None)
    assert span(dirt) == (0, 30)
    assert (dirt.clean_bytes, dirt.cleanable_bytes, dirt.ratio) == (0, 300, 1.0)


def test_what_was_cleaned_before_is_clean() -> None:
    dirt = Facts().measure(20)
    assert span(dirt) == (20, 30)
    assert (dirt.clean_bytes, dirt.cleanable_bytes) == (200, 100)
    assert dirt.ratio == pytest.approx(1 / 3)
    assert not dirt.worth_cleaning


@pytest.mark.parametrize(("stable", "end"), [(0, 0), (9, 0), (10, 10), (29, 20), (30, 30), (35, 30)])
def test_nothing_at_or_above_the_last_stable_offset(stable: int, end: int) -> None:
    assert Facts(stable=stable).measure(None).first_uncleanable_offset == end


@pytest.mark.parametrize("checkpoint", [4, 41])
def test_a_checkpoint_outside_of_the_log_counts_for_nothing(checkpoint: int) -> None:
    assert Facts(start=5).measure(checkpoint).first_dirty_offset == 5


def test_young_segments_wait() -> None:
    assert span(Facts(min_lag=NOW - 1_015).measure(None)) == (0, 20)
    assert Facts(min_lag=NOW).measure(None).cleanable_bytes == 0


def test_the_lag_only_looks_at_dirty_segments() -> None:
    assert span(Facts(min_lag=NOW - 1_015).measure(20)) == (20, 20)


def test_a_dirty_part_beyond_the_stable_offset_is_no_error() -> None:
    dirt = Facts(stable=5).measure(25)
    assert dirt.cleanable_bytes == 0
    assert not dirt.worth_cleaning


def test_an_old_record_makes_a_log_overdue() -> None:
    assert Facts(max_lag=NOW - 600, ratio=1.0).measure(None).overdue
    assert Facts(max_lag=NOW - 600, ratio=1.0).measure(None).worth_cleaning
    assert not Facts(max_lag=NOW - 500, ratio=1.0).measure(None).overdue
    assert Facts(max_lag=NOW - 511, ratio=1.0).measure(10).overdue
    assert not Facts(max_lag=NOW - 510, ratio=1.0).measure(10).overdue


def test_the_filthiest_is_chosen() -> None:
    half, third, all_dirty = (
        Facts(ratio=0.4).measure(10),
        Facts(ratio=0.4).measure(20),
        Facts(ratio=1.0).measure(0),
    )
    assert filthiest([("third", third), ("half", half), ("threshold not passed", all_dirty)]) == (
        "half",
        half,
    )
    assert filthiest([("third", third)]) is None


def sizes(*segments: tuple[int, int, int]) -> list[SegmentFacts]:
    return [SegmentFacts(base, size, -1, -1, index, index) for base, size, index in segments]


def test_neighbours_are_put_together_up_to_a_segments_size() -> None:
    segments = sizes((0, 60, 1), (10, 40, 1), (20, 1, 1), (30, 99, 1), (40, 150, 1))
    assert group_segments(segments, 100, 100, 50) == [range(0, 2), range(2, 4), range(4, 5)]


def test_the_index_must_have_room() -> None:
    segments = sizes((0, 1, 50), (10, 1, 50), (20, 1, 50))
    assert group_segments(segments, 100, 100, 30) == [range(0, 2), range(2, 3)]


def test_offsets_must_fit_the_index() -> None:
    far = 2**31
    assert group_segments(sizes((0, 1, 1), (10, 1, 1)), 100, 100, far) == [range(0, 2)]
    assert group_segments(sizes((0, 1, 1), (10, 1, 1)), 100, 100, far + 1) == [range(0, 1), range(1, 2)]
    assert group_segments(sizes((0, 1, 1), (10, 1, 1), (far, 1, 1)), 100, 100, far + 5) == [
        range(0, 2),
        range(2, 3),
    ]
    assert group_segments(sizes((0, 1, 1), (far, 0, 0)), 100, 100, far + 5) == [range(0, 2)]


def test_no_segments_no_groups() -> None:
    assert group_segments([], 100, 100, 0) == []
