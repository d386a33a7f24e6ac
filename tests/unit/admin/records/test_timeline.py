"""The timeline of a topic: the offsets of each bucket, found by timestamps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.records.timeline import edges, timeline
from tests.support.fake_log import NOW_MS, FakeLog, numbered, session_of


def test_offsets_are_counted_by_time() -> None:
    one, two = FakeLog(), FakeLog()
    one.append(numbered([0, 1, 2]))
    one.append(numbered([9]))
    two.append(numbered([1, 8]))
    found = timeline(session_of(one, two, FakeLog()), "t", 3)
    assert (found.start_ms, found.end_ms) == (NOW_MS, NOW_MS + 9000)
    assert found.counts == (4, 0, 2)
    assert found.edges_ms == [NOW_MS, NOW_MS + 3000, NOW_MS + 6000, NOW_MS + 9001]
    part = timeline(session_of(one, two), "t", 2, start_ms=NOW_MS + 1000, end_ms=NOW_MS + 2000)
    assert part.counts == (2, 1)


def test_a_topic_without_records_has_no_buckets() -> None:
    found = timeline(session_of(FakeLog(), FakeLog(5)), "t", 10)
    assert (found.counts, found.edges_ms, found.bucket_ms) == ((), [], 0.0)


def test_one_timestamp_is_one_bucket() -> None:
    log = FakeLog()
    log.append(numbered([4, 4, 4]))
    assert timeline(session_of(log), "t", 10).counts == (3,)


@given(st.integers(0, 10**13), st.integers(0, 10**9), st.integers(1, 100))
def test_edges_divide_the_time(start: int, length: int, buckets: int) -> None:
    found = edges(start, start + length, buckets)
    assert (found[0], found[-1], len(found)) == (start, start + length + 1, buckets + 1)
    assert found == sorted(found)
