"""The rules of the scoreboard: a set of events decides, not their order or their number of copies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.rng import Random
from ottla.scoreboard.generator import disturbed, season
from ottla.scoreboard.match import MatchEvent
from ottla.scoreboard.standings import WINDOW_MS, standing, standings, statistics

EVENTS = list(season(2, 1_700_000_000_000, 3))


def event(number: int, **fields: Any) -> MatchEvent:
    given: dict[str, Any] = {
        "match": "Canada vs USA",
        "started_ms": 0,
        "number": number,
        "time_ms": number * 1_000,
        "quarter": 1,
        "clock": "09:00",
        "kind": "score",
        "event": "Score",
    }
    return MatchEvent(**{**given, **fields})


def test_the_newest_event_determines_the_score() -> None:
    first, second = event(1, home_points=39, away_points=46), event(2, home_points=41, away_points=46)
    for order in ([first, second], [second, first]):
        found = standing(order)
        assert (found.home_points, found.away_points, found.last_event_ms) == (41, 46, 2_000)


def test_of_events_at_the_same_time_the_later_number_is_newer() -> None:
    assert standing([event(2, time_ms=5, home_points=2), event(1, time_ms=5)]).home_points == 2


def test_a_foul_counts_once_for_its_team() -> None:
    fouls = [event(1, kind="foul", side="home"), event(2, kind="foul", side="away")]
    found = standing([*fouls, *fouls, event(3, kind="foul", side="home"), event(4, side="home", points=2)])
    assert (found.home_fouls, found.away_fouls) == (2, 1)


@pytest.mark.parametrize(("kind", "ended"), [("quarter end", False), ("match end", True)])
def test_a_match_ends_with_its_last_event_only(kind: str, ended: bool) -> None:
    assert standing([event(1), event(2, kind=kind)]).ended is ended


def test_the_next_match_of_two_teams_is_another_one() -> None:
    found = standings([event(1, home_points=80), event(1, started_ms=99_000, home_points=2)])
    assert {key: each.home_points for key, each in found.items()} == {
        ("Canada vs USA", 0): 80,
        ("Canada vs USA", 99_000): 2,
    }
    assert found["Canada vs USA", 0].age < found["Canada vs USA", 99_000].age


def test_figures_are_of_the_window_an_event_happened_in() -> None:
    events = [
        event(1, time_ms=WINDOW_MS - 1, side="home", points=3),
        event(2, time_ms=WINDOW_MS, side="away", points=2),
        event(3, time_ms=WINDOW_MS, kind="foul", side="home"),
        event(4, time_ms=WINDOW_MS + 5, kind="free throw", side="away"),
    ]
    found = statistics([*events, events[1]])
    assert [key[2] for key in found] == [0, WINDOW_MS]
    early, later = found.values()
    assert (early.events, early.home_points, early.window_end_ms) == (1, 3, WINDOW_MS)
    assert (later.events, later.away_points, later.fouls, later.free_throws) == (3, 2, 1, 1)


def test_figures_add_up_to_the_score() -> None:
    finals = standings(EVENTS)
    for (match, started_ms), final in finals.items():
        windows = [each for key, each in statistics(EVENTS).items() if key[:2] == (match, started_ms)]
        assert sum(each.home_points for each in windows) == final.home_points
        assert sum(each.away_points for each in windows) == final.away_points
        assert sum(each.fouls for each in windows) == final.home_fouls + final.away_fouls


@given(st.integers(), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30)
def test_disorder_and_copies_change_nothing(seed: int, duplicates: float, late: float) -> None:
    rng = Random(seed)
    arrived = [each.event for each in disturbed(EVENTS, rng, duplicates=duplicates, late=late)]
    rng.shuffle(arrived)
    assert standings(arrived) == standings(EVENTS)
    assert statistics(arrived) == statistics(EVENTS)
