"""The scoreboard of each group, up to its committed offsets."""

from __future__ import annotations

import msgspec

from ottla.base.ids import TopicPartition
from ottla.console.data.boards import Boards
from ottla.scoreboard.standings import Standing

TP = TopicPartition("scoreboard", 0)


def standing(match: str, number: int, *, ended: bool = False) -> bytes:
    made = Standing(
        match=match, started_ms=1, home_points=number, away_points=0, quarter=1, clock="10:00", home_fouls=0,
        away_fouls=0, last_event="Score", last_event_ms=number, number=number, ended=ended,
    )  # fmt: skip
    return msgspec.json.encode(made)


def points(boards: Boards, group: str) -> list[tuple[str, int]]:
    return [(each.match, each.home_points) for each in boards.standings(group)]


def test_a_group_has_seen_what_is_before_its_committed_offset() -> None:
    boards = Boards()
    for offset in range(5):
        boards.add(TP, offset, standing("A vs B", offset))
    boards.advance("mobile", {TP: 3})
    boards.advance("computer", {TP: 5})
    assert points(boards, "mobile") == [("A vs B", 2)]
    assert points(boards, "computer") == [("A vs B", 4)]
    boards.advance("mobile", {TP: 3})
    assert points(boards, "mobile") == [("A vs B", 2)]


def test_a_reset_group_does_not_show_an_older_score() -> None:
    boards = Boards()
    boards.add(TP, 0, standing("A vs B", 7))
    boards.advance("mobile", {TP: 1})
    boards.add(TP, 1, standing("A vs B", 3))
    boards.advance("mobile", {TP: 2})
    assert points(boards, "mobile") == [("A vs B", 7)]


def test_values_that_are_not_standings_are_ignored() -> None:
    boards = Boards()
    for offset, value in enumerate((None, b"", b"{}", b"\xff", b"[" * 100_000)):
        boards.add(TP, offset, value)
    boards.advance("mobile", {TP: 9})
    assert points(boards, "mobile") == []


def test_matches_that_go_on_are_first() -> None:
    boards = Boards()
    boards.add(TP, 0, standing("A vs B", 9, ended=True))
    boards.add(TP, 1, standing("C vs D", 1))
    boards.advance("mobile", {TP: 2})
    assert [match for match, _ in points(boards, "mobile")] == ["C vs D", "A vs B"]
