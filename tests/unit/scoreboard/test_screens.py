"""What devices show: the newest standing, narrow and wide."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from ottla.scoreboard.screens import COMPUTER_WIDTH, MOBILE_WIDTH, Board, computer, line, mobile
from ottla.scoreboard.standings import Standing


def standing(**fields: Any) -> Standing:
    given: dict[str, Any] = {
        "match": "Canada vs USA",
        "started_ms": 1_000,
        "home_points": 39,
        "away_points": 46,
        "quarter": 3,
        "clock": "04:12",
        "home_fouls": 5,
        "away_fouls": 7,
        "last_event": "Score 39-46",
        "last_event_ms": 2_000,
        "number": 80,
        "ended": False,
    }
    return Standing(**{**given, **fields})


def drawn(panel: Any) -> list[str]:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(panel)
    lines = console.export_text().splitlines()
    console.file.close()
    return lines


def test_a_newer_standing_replaces_an_older_one_and_not_the_other_way_round() -> None:
    board = Board()
    old, new = standing(number=79), standing(number=80, home_points=41)
    assert [board.show(each) for each in (old, new, old, new)] == [True, True, False, False]
    assert board.standings == {"Canada vs USA": new}


def test_the_next_match_of_the_teams_is_newer_than_all_of_the_last() -> None:
    board = Board()
    board.show(standing(last_event_ms=9_000_000, number=200, ended=True))
    assert board.show(standing(started_ms=2_000, last_event_ms=2_000, number=1))


def test_a_round_is_over_when_each_of_its_matches_is() -> None:
    board = Board()
    board.show(standing(ended=True))
    assert board.ended(1, 1_000)
    assert not board.ended(2, 1_000)
    assert not board.ended(1, 1_001), "a match of an earlier round"
    board.show(standing(match="Peru vs Chile"))
    assert not board.ended(2, 1_000)
    board.show(standing(match="Peru vs Chile", ended=True, number=81))
    assert board.ended(2, 1_000)


@pytest.mark.parametrize(("draw", "width"), [(mobile, MOBILE_WIDTH), (computer, COMPUTER_WIDTH)])
def test_screens_fit_their_device_and_show_the_score(draw: Any, width: int) -> None:
    shown = drawn(draw({"Canada vs USA": standing()}, "owner"))
    assert {len(each.rstrip()) for each in shown} == {width}
    text = "\n".join(shown)
    for word in ("Canada", "USA", "39", "46", "Q3 04:12", "owner"):
        assert word in text


def test_a_mobile_shows_the_owners_of_any_number_of_partitions() -> None:
    owners = "mobile-1: 0,1,2,3,4,5,6,7,8,9,10,11  mobile-2: idle"
    text = "".join(each.strip("│ \n") for each in drawn(mobile({"Canada vs USA": standing()}, owners)))
    assert "".join(owners.split()) in "".join(text.split())


def test_the_computer_shows_what_the_mobile_has_no_room_for() -> None:
    standings = {"Canada vs USA": standing()}
    wide, narrow = "\n".join(drawn(computer(standings, ""))), "\n".join(drawn(mobile(standings, "")))
    for word in ("5-7", "Score 39-46"):
        assert word in wide
        assert word not in narrow


@pytest.mark.parametrize(
    ("fields", "words"), [({}, "Q3 04:12"), ({"quarter": 5}, "OT1 04:12"), ({"ended": True}, "final")]
)
def test_a_line_contains_the_state_of_the_match(fields: dict[str, Any], words: str) -> None:
    assert line(standing(**fields)) == f"Canada vs USA: 39-46 {words}, fouls 5-7, Score 39-46"
