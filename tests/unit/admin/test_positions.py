"""The syntax of positions, and their resolution against the bounds of a log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.positions import (
    END,
    OFFSET_MAX,
    START,
    InvalidPosition,
    Kind,
    LogBounds,
    OffsetOutsideLog,
    Position,
    PositionRange,
    log_bounds,
    offset_of,
    parse_duration_ms,
    parse_position,
    parse_range,
    parse_time_ms,
    resolve,
)
from ottla.base.ids import TopicPartition
from ottla.client.raw.offsets import EARLIEST, LATEST, NO_OFFSET

TP = TopicPartition("matches", 0)
OTHER = TopicPartition("matches", 1)
TEN_MS = 1_794_909_600_000
"""2026-11-17T10:00 UTC."""
LOG = LogBounds(100, 200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", START),
        ("end", END),
        (" 42 ", Position(Kind.OFFSET, 42)),
        ("0", Position(Kind.OFFSET, 0)),
        ("+5", Position(Kind.START, 5)),
        ("-10", Position(Kind.END, 10)),
        ("@2026-11-17T10:00", Position(Kind.TIME, TEN_MS)),
        ("@2026-11-17T10:00:30", Position(Kind.TIME, TEN_MS + 30_000)),
        ("@2026-11-17 10:00:30.5", Position(Kind.TIME, TEN_MS + 30_500)),
        ("@2026-11-17T12:00+02:00", Position(Kind.TIME, TEN_MS)),
        ("@2026-11-17T12:00+0200", Position(Kind.TIME, TEN_MS)),
        ("@2026-11-17T10:00Z", Position(Kind.TIME, TEN_MS)),
        ("@2026-11-17", Position(Kind.TIME, TEN_MS - 36_000_000)),
        (f"@{TEN_MS}", Position(Kind.TIME, TEN_MS)),
        ("@1950-01-01", Position(Kind.TIME, 0)),
        ("@-1h", Position(Kind.AGO, 3_600_000)),
        ("@-1h30m", Position(Kind.AGO, 5_400_000)),
        ("@now", Position(Kind.AGO, 0)),
    ],
)
def test_a_position_is_parsed(text: str, expected: Position) -> None:
    assert parse_position(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latest",
        "1.5",
        "--5",
        "+-5",
        "@",
        "@1h",
        "@-1",
        "@-1y",
        "@2026-13-01",
        "@2026-02-30",
        "@10:00",
        "5:6",
        "٣",
        "9" * 25,
        "9" * 5000,
        str(OFFSET_MAX + 1),
        "@-" + "9" * 400 + "h",
    ],
)
def test_what_is_not_a_position_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(InvalidPosition):
        parse_position(text)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("5", "5", "end"),
        ("5:", "5", "end"),
        (":7", "start", "7"),
        (":", "start", "end"),
        ("-10:end", "-10", "end"),
        ("start:+5", "start", "+5"),
        ("@-1h:end", "@-1h", "end"),
        ("@-2h:@-1h", "@-2h", "@-1h"),
        ("@2026-11-17T10:00:@2026-11-17T11:00", "@2026-11-17T10:00", "@2026-11-17T11:00"),
        ("@2026-11-17T10:00:30", "@2026-11-17T10:00:30", "end"),
        ("@2026-11-17T10:00:00:30", "@2026-11-17T10:00", "30"),
        ("@2026-11-17:30", "@2026-11-17", "30"),
        (f"@{TEN_MS}:30", "@2026-11-17T10:00", "30"),
    ],
)
def test_a_range_is_parsed(text: str, start: str, end: str) -> None:
    assert parse_range(text) == PositionRange(parse_position(start), parse_position(end))


@pytest.mark.parametrize("text", ["", "a:b", "5:6:7", "5:x", "x:5", "5;6", "start end"])
def test_what_is_not_a_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition, match="position"):
        parse_range(text)


@given(st.text(alphabet="startend0123456789+-:@TZ.hms P", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_position, parse_range, parse_duration_ms, parse_time_ms):
        with suppress(InvalidPosition):
            parse(text)


positions = st.builds(Position, st.sampled_from(Kind), st.integers(0, 2**50))


@given(positions, positions)
def test_the_text_of_a_position_is_parsed_to_the_same_position(start: Position, end: Position) -> None:
    assert parse_position(str(start)) == start
    assert parse_range(str(PositionRange(start, end))) == PositionRange(start, end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("1.5s", 1500),
        ("2m", 120000),
        ("1h30m", 5400000),
        ("2d", 172800000),
        ("1w", 604800000),
        ("PT1H30M", 5400000),
        ("P1D", 86400000),
        ("P1DT0.5S", 86400500),
        ("0s", 0),
    ],
)
def test_a_duration_is_parsed(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "h", "1h 30m", "-1h", "P", "PT", "P1DT", "1y"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition, match="duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", 100),
        ("+5", 105),
        ("+500", 200),
        ("end", 200),
        ("-10", 190),
        ("-500", 100),
        ("100", 100),
        ("150", 150),
        ("200", 200),
    ],
)
def test_a_position_is_resolved_within_the_log(text: str, expected: int) -> None:
    assert offset_of(parse_position(text), TP, LOG) == expected


@pytest.mark.parametrize(("text", "expected"), [("99", 100), ("201", 200)])
def test_an_offset_outside_the_log_is_an_error_unless_the_nearest_is_wanted(text: str, expected: int) -> None:
    position = parse_position(text)
    with pytest.raises(OffsetOutsideLog, match=f"matches-0 has no offset {text}: .* 100 .* 200"):
        offset_of(position, TP, LOG)
    assert offset_of(position, TP, LOG, nearest=True) == expected


def test_a_time_after_the_last_record_is_the_end() -> None:
    now = Position(Kind.AGO, 0)
    assert offset_of(now, TP, LOG, NO_OFFSET) == 200
    assert offset_of(now, TP, LOG, 150) == 150
    # Records that were appended after the bounds were read are not part of the log.
    assert offset_of(now, TP, LOG, 205) == 200


class FakeOffsets:
    """Records of two partitions: one record a second since TEN_MS."""

    def __init__(self) -> None:
        self.logs = {TP: LOG, OTHER: LogBounds(0, 0)}
        self.requested: list[int] = []

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        self.requested += set(wanted.values())
        return {
            tp: (self._find(self.logs[tp], time) - (5 if committed else 0), 0) for tp, time in wanted.items()
        }

    def _find(self, log: LogBounds, time: int) -> int:
        if time in (EARLIEST, LATEST):
            return log.start if time == EARLIEST else log.end
        found = log.start + max(0, -(-(time - TEN_MS) // 1000))
        return found if found < log.end else NO_OFFSET


def test_every_partition_is_resolved() -> None:
    cluster = FakeOffsets()
    bounds = log_bounds(cluster, [TP, OTHER])
    assert bounds == cluster.logs
    now = TEN_MS + 60_000
    assert resolve(cluster, parse_position("-10"), bounds, now) == {TP: 190, OTHER: 0}
    assert resolve(cluster, parse_position("@-50s"), bounds, now) == {TP: 110, OTHER: 0}
    assert resolve(cluster, parse_position("@2026-11-17T10:00:20"), bounds, now) == {TP: 120, OTHER: 0}
    with pytest.raises(OffsetOutsideLog, match="matches-1"):
        resolve(cluster, parse_position("150"), bounds, now)
    assert resolve(cluster, parse_position("150"), bounds, now, nearest=True) == {TP: 150, OTHER: 0}


def test_a_time_before_1970_is_not_one_of_the_special_timestamps() -> None:
    assert Position(Kind.AGO, 5000).timestamp(now_ms=1000) == 0


def test_committed_bounds_end_at_the_last_stable_offset_and_not_before_the_start() -> None:
    cluster = FakeOffsets()
    assert log_bounds(cluster, [TP, OTHER], committed=True) == {
        TP: LogBounds(100, 195),
        OTHER: LogBounds(0, 0),
    }
