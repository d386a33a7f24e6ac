"""The browser on logs in memory: order, ends, gaps, pages, progress, cancelling, following."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.positions import OffsetOutsideLog, parse_range
from ottla.admin.records import browse
from ottla.admin.records.browse import Browser, OffsetRange, Page, Progress, plan
from ottla.admin.records.scan import ConsumedRecord
from ottla.admin.records.where import compile_filter
from ottla.base.ids import TopicPartition
from ottla.client.raw import UnknownTopic
from ottla.records.builder import NewRecord
from tests.support.fake_log import NOW_MS, FakeLog, numbered, session_of


def log_of(*batches: list[int], gap: int = 0, start: int = 0) -> FakeLog:
    log = FakeLog(start)
    for numbers in batches:
        log.append(numbered(numbers))
        log.skip(gap)
    return log


def values(records: Any) -> list[int]:
    return [int(record.value) for record in records]


def test_records_of_partitions_are_merged_by_time() -> None:
    session = session_of(log_of([0, 3], [6, 7]), log_of([1], [2, 8]), log_of([]), log_of([4, 5]))
    browser = Browser(session, ["t"])
    assert values(browser.records()) == list(range(9))
    assert browser.progress == Progress(9, 9, 9)
    assert values(Browser(session, ["t"], newest_first=True).records()) == list(range(8, -1, -1))


def test_it_ends_at_the_end_known_when_it_was_created() -> None:
    log = log_of([0, 1])
    browser = Browser(session_of(log), ["t"])
    reading = browser.records()
    assert int(next(reading).value or b"") == 0
    log.append(numbered([2]))
    assert values(reading) == [1]


@pytest.mark.parametrize("newest_first", [False, True])
def test_gaps_do_not_make_it_wait(newest_first: bool) -> None:
    log = log_of([0], [1, 2], [3], gap=1000, start=50)
    browser = Browser(session_of(log), ["t"], newest_first=newest_first)
    assert sorted(values(browser.records())) == [0, 1, 2, 3]
    assert browser.progress.done == browser.progress.total == 3004
    assert browser.lost == {}
    # A fetch that returns nothing is repeated once; everything else is fetched a few times.
    assert len(browser._cluster.fetched) < 30


def test_positions_limit_the_offsets() -> None:
    session = session_of(log_of([0, 1, 2, 3, 4, 5]), log_of([10, 11]))

    def read(text: str, **options: Any) -> list[int]:
        return values(Browser(session, ["t"], parse_range(text), **options).records())

    assert read("-2") == [4, 5, 10, 11]
    assert read("+1:+3") == [1, 2, 11]
    assert read("2:4", partitions=[0]) == [2, 3]
    assert read("2:1000", partitions=[0]) == [2, 3, 4, 5]
    assert read("4:2", partitions=[0]) == []
    assert read(f"@{NOW_MS + 4000}") == [4, 5, 10, 11]
    assert read("end") == []
    with pytest.raises(OffsetOutsideLog, match="t-1 has no offset 4: its log starts at 0 and ends at 2"):
        read("4")
    with pytest.raises(OffsetOutsideLog, match="t has no partition 7"):
        read("start", partitions=[7])
    with pytest.raises(UnknownTopic):
        Browser(session, ["absent"])


def test_a_filter_and_its_progress() -> None:
    browser = Browser(session_of(log_of([0, 1, 2, 3])), ["t"], where=compile_filter("value = 2", 0))
    assert values(browser.records()) == [2]
    assert browser.progress == Progress(4, 4, 1)


def test_pages_have_the_progress_and_remaining_continues() -> None:
    session = session_of(log_of([0, 2, 4], [6]), log_of([1, 3, 5, 7]))
    for newest_first in (False, True):
        first = Browser(session, ["t"], newest_first=newest_first)
        pages = first.pages(3)
        page = next(pages)
        rest = Browser(session, ["t"], newest_first=newest_first, ranges=first.remaining())
        expected = sorted(range(8), reverse=newest_first)
        assert values(page.records) + values(rest.records()) == expected
        assert values(page.records) + [one for each in pages for one in values(each.records)] == expected


def test_a_search_without_matches_returns_empty_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "PAGE_SCANNED", 2)
    monkeypatch.setattr(browse, "FETCH_BYTES", 1)
    monkeypatch.setattr(browse, "FETCH_BYTES_MIN", 1)
    session = session_of(log_of([0], [1], [2], [3]))
    pages = list(Browser(session, ["t"], where=compile_filter("value = 9", 0)).pages())
    assert [page.progress.done for page in pages] == [2, 4, 4]
    assert all(page.records == [] for page in pages)
    assert list(Browser(session_of(FakeLog()), ["t"]).pages()) == [Page([], Progress(0, 0, 0))]


@pytest.mark.parametrize("newest_first", [False, True])
def test_it_can_be_cancelled(newest_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "FETCH_BYTES", 1)
    browser = Browser(session_of(log_of([0], [1], [2])), ["t"], newest_first=newest_first)
    reading = browser.records()
    next(reading)
    browser.cancel()
    assert list(reading) == []
    assert list(browser.follow()) == []


def test_deleted_records_are_counted_as_lost() -> None:
    log = log_of([0], [1], [2], [3])
    browser = Browser(session_of(log), ["t"])
    browser._cursors[0]._fetch_bytes = 1
    reading = browser.records()
    next(reading)
    log.delete_before(3)
    assert values(reading) == [3]
    assert browser.lost == {TopicPartition("t", 0): 2}


def test_a_truncated_log_ends_the_reading() -> None:
    log = log_of([0], [1], [2])
    browser = Browser(session_of(log), ["t"])
    log.end, log.batches = 1, log.batches[:1]
    assert values(browser.records()) == [0]
    assert browser.lost == {TopicPartition("t", 0): 2}


def test_newest_first_reads_small_windows_of_large_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a window that is too large are not kept; they are read again."""
    monkeypatch.setattr(browse, "KEPT_BYTES_MAX", 3000)
    log = FakeLog()
    log.append([NewRecord(None, b"x" * 1000, (), NOW_MS + index) for index in range(20)])
    browser = Browser(session_of(log), ["t"], newest_first=True)
    kept = 0
    for found in browser._steps():
        kept = max(kept, sum(len(cursor._buffer) for cursor in browser._cursors))
        list(found)
    assert kept == 3
    offsets = [one.offset for one in Browser(session_of(log), ["t"], newest_first=True).records()]
    assert offsets == list(range(19, -1, -1))


def follow(browser: Browser, count: int, appends: Iterator[Any]) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    for records in browser.follow(poll_s=0.0):
        found += records
        if len(found) >= count:
            browser.cancel()
        elif not records:
            next(appends, None)
    return found


def test_new_records_are_followed() -> None:
    logs = [log_of([0]), log_of([1])]
    browser = Browser(session_of(*logs), ["t"], where=compile_filter("value != 3", 0))
    assert values(browser.records()) == [0, 1]

    def appends() -> Iterator[None]:
        logs[0].append(numbered([2]))
        yield
        logs[1].append(numbered([3]))
        logs[1].skip(10)
        yield
        logs[1].append(numbered([4]))
        yield

    assert values(follow(browser, 2, appends())) == [2, 4]
    assert browser.progress.matched == 4


def test_partitions_that_are_added_are_followed_from_their_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "_NEW_PARTITIONS_POLLS", 1)
    session = session_of(log_of([0]))
    browser = Browser(session, ["t"], parse_range("end"))

    def appends() -> Iterator[None]:
        session.cluster.logs[TopicPartition("t", 1)] = log_of([5])
        yield

    assert values(follow(browser, 1, appends())) == [5]


def test_following_continues_after_the_log_was_recreated() -> None:
    log = log_of([0, 1, 2])
    browser = Browser(session_of(log), ["t"])

    def appends() -> Iterator[None]:
        log.batches, log.end = [], 0
        yield
        log.append(numbered([9]))
        yield

    assert values(follow(browser, 1, appends())) == [9]


def test_a_plan_names_every_partition() -> None:
    session = session_of(log_of([0, 1]), FakeLog(7))
    assert plan(session.cluster, ["t"], parse_range("start"), NOW_MS) == {
        TopicPartition("t", 0): OffsetRange(0, 2),
        TopicPartition("t", 1): OffsetRange(7, 7),
    }


batches = st.lists(
    st.tuples(st.lists(st.integers(-5, 50), min_size=1, max_size=4), st.integers(0, 200)), max_size=8
)


@given(
    st.lists(batches, min_size=1, max_size=3),
    st.integers(1, 400),
    st.booleans(),
    st.integers(1, 5),
    st.data(),
)
def test_every_record_is_returned_once_in_the_order_of_offsets(
    partitions: list[list[tuple[list[int], int]]],
    fetch_bytes: int,
    newest_first: bool,
    size: int,
    data: st.DataObject,
) -> None:
    logs = []
    for contents in partitions:
        log = FakeLog()
        for numbers, gap in contents:
            log.append(numbered(numbers, step_ms=1))
            log.skip(gap)
        logs.append(log)
    session = session_of(*logs)
    browser = Browser(session, ["t"], newest_first=newest_first)
    for cursor in browser._cursors:
        cursor._fetch_bytes = fetch_bytes
        if newest_first:
            cursor._window = data.draw(st.integers(1, 100))  # type: ignore[attr-defined]
    found: list[ConsumedRecord] = []
    for page in browser.pages(size):
        assert len(page.records) <= size
        found += page.records
    for index, contents in enumerate(partitions):
        mine = [record for record in found if record.partition == index]
        in_log = [number for numbers, _ in contents for number in numbers]
        assert values(mine if not newest_first else mine[::-1]) == in_log
        offsets = [record.offset for record in mine]
        assert offsets == sorted(offsets, reverse=newest_first)
    in_order = all(
        [number for numbers, _ in contents for number in numbers]
        == sorted(number for numbers, _ in contents for number in numbers)
        for contents in partitions
    )
    if in_order:
        times = [record.timestamp for record in found]
        assert times == sorted(times, reverse=newest_first)
    assert browser.progress.done == browser.progress.total
    assert browser.lost == {}
