"""Committable offsets: never above unfinished records, and over offsets without a record."""

from __future__ import annotations

import pytest

from ottla.base.errors import InvariantViolation
from ottla.client.parallel.offset_tracker import OffsetTracker


def test_nothing_is_committable_before_the_first_offset() -> None:
    tracker = OffsetTracker()
    assert tracker.committable_offset is None
    assert tracker.finished_ranges() == []


def test_the_lowest_unfinished_offset_is_committable() -> None:
    tracker = OffsetTracker()
    for offset in (10, 11, 12):
        assert tracker.take(offset)
    tracker.finish(11)
    assert tracker.committable_offset == 10
    assert tracker.finished_ranges() == [(11, 12)]
    tracker.finish(10)
    assert tracker.committable_offset == 12
    tracker.finish(12)
    assert tracker.committable_offset == 13
    assert tracker.finished_ranges() == []


def test_offsets_without_a_record_count_as_finished() -> None:
    tracker = OffsetTracker(5)
    tracker.take(9)
    assert tracker.committable_offset == 9
    tracker.take(20)
    assert tracker.finished_ranges() == [(10, 20)]
    tracker.finish(9)
    assert tracker.committable_offset == 20


def test_the_end_of_a_partition_moves_the_committable_offset_over_markers() -> None:
    tracker = OffsetTracker(0)
    tracker.take(0)
    tracker.finish(0)
    assert tracker.advance(2)
    assert tracker.committable_offset == 2
    assert not tracker.advance(1)
    assert tracker.committable_offset == 2


def test_records_finished_before_a_restart_are_skipped_and_committed_again() -> None:
    tracker = OffsetTracker(100, [(101, 103), (150, 200)])
    assert tracker.take(100)
    assert not tracker.take(101)
    assert not tracker.take(102)
    assert tracker.take(103)
    assert tracker.finished_ranges() == [(101, 103), (150, 200)]
    tracker.finish(100)
    assert tracker.committable_offset == 103
    assert tracker.finished_ranges() == [(150, 200)]
    tracker.finish(103)
    assert not tracker.take(150)
    assert tracker.committable_offset == 151
    assert tracker.finished_ranges() == [(151, 200)]


def test_adjacent_ranges_are_merged() -> None:
    tracker = OffsetTracker(0, [(3, 9)])
    for offset in (0, 1, 2):
        tracker.take(offset)
    tracker.finish(1)
    tracker.finish(2)
    assert tracker.finished_ranges() == [(1, 9)]


def test_a_lower_offset_is_detected_and_rejected() -> None:
    tracker = OffsetTracker(5)
    assert tracker.is_rewind(4)
    assert not tracker.is_rewind(5)
    with pytest.raises(InvariantViolation):
        tracker.take(4)


def test_one_blocked_record_fits_into_the_metadata_but_scattered_ones_do_not() -> None:
    stuck = OffsetTracker(0)
    for offset in range(100_000):
        stuck.take(offset)
        if offset:
            stuck.finish(offset)
    assert not stuck.exceeds_metadata(4096)
    assert len(stuck) == 1
    scattered = OffsetTracker(0)
    for offset in range(60_000):
        scattered.take(offset)
        if offset % 2:
            scattered.finish(offset)
    assert scattered.exceeds_metadata(4096)
    for offset in range(0, 40_000, 2):
        scattered.finish(offset)
    assert not scattered.exceeds_metadata(4096)
