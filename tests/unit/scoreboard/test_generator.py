"""Played matches: the same for the same seed, by the rules, lazily, and disturbed as asked."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import pytest

from ottla.base.rng import Random
from ottla.scoreboard.generator import (
    ROUND_MS,
    TEAMS,
    Fixture,
    at_rate,
    disturbed,
    faster,
    fixtures,
    play,
    season,
)
from ottla.scoreboard.match import MatchEvent, teams

BEGAN_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def game(seed: int = 1) -> list[MatchEvent]:
    return list(play(Fixture("Canada vs USA", BEGAN_MS), Random(seed)))


def test_a_seed_plays_the_same_match_again() -> None:
    assert game(1) == game(1)
    assert game(1) != game(2)


def test_a_match_is_the_same_whatever_else_is_on() -> None:
    few, many = season(2, BEGAN_MS, 5), season(9, BEGAN_MS, 5)
    name = "Canada vs USA"
    assert [event for event in few if event.match == name] == [event for event in many if event.match == name]


@pytest.mark.parametrize("seed", range(20))
def test_a_match_follows_the_rules(seed: int) -> None:
    events = game(seed)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert all(before.time_ms <= after.time_ms for before, after in pairwise(events))
    kinds = Counter(event.kind for event in events)
    quarters = events[-1].quarter
    assert kinds["quarter start"] == kinds["quarter end"] == quarters >= 4
    assert (events[0].kind, events[-1].kind) == ("quarter start", "match end")
    assert events[-1].home_points != events[-1].away_points, "overtimes until one team leads"
    level = [event for event in events if event.kind == "quarter end" and 4 <= event.quarter < quarters]
    assert all(event.home_points == event.away_points for event in level), "overtimes only when level"


@pytest.mark.parametrize("seed", range(20))
def test_scores_add_up(seed: int) -> None:
    home = away = 0
    for event in game(seed):
        home += event.points if event.side == "home" else 0
        away += event.points if event.side == "away" else 0
        assert (event.home_points, event.away_points) == (home, away)
        if event.kind == "score":
            assert event.event == f"Score {home}-{away}"
            assert event.points in {1, 2, 3}
        else:
            assert event.points == 0


def test_matches_look_like_basketball() -> None:
    finals = [game(seed)[-1] for seed in range(60)]
    points = [points for final in finals for points in (final.home_points, final.away_points)]
    assert 65 < sum(points) / len(points) < 100
    fouls = [sum(event.kind == "foul" for event in game(seed)) for seed in range(60)]
    assert 20 < sum(fouls) / len(fouls) < 45
    assert any(final.quarter > 4 for final in finals), "some need an overtime"
    lasted = [(final.time_ms - BEGAN_MS) / MINUTE_MS for final in finals]
    assert 60 < min(lasted) < max(lasted) < 180


def test_one_point_follows_a_free_throw() -> None:
    for before, after in pairwise(game()):
        if after.points == 1:
            assert before.kind == "free throw"
            assert (before.side, before.player) == (after.side, after.player)


@pytest.mark.parametrize("count", [1, 3, 12, 13, 700])
def test_any_number_of_matches_has_names_of_their_own(count: int) -> None:
    made = fixtures(count, BEGAN_MS)
    assert len({fixture.match for fixture in made}) == len(made) == count
    assert all(home != away for home, away in map(teams, (fixture.match for fixture in made)))


def test_the_first_matches_share_no_team() -> None:
    playing = [team for fixture in fixtures(len(TEAMS) // 2, 0) for team in teams(fixture.match)]
    assert len(set(playing)) == len(playing)


def test_a_season_is_in_the_order_of_time() -> None:
    events = list(season(5, BEGAN_MS, 1, rounds=2))
    assert all(before.time_ms <= after.time_ms for before, after in pairwise(events))
    assert {event.started_ms for event in events} == {BEGAN_MS, BEGAN_MS + ROUND_MS}
    assert sum(event.kind == "match end" for event in events) == 10


def test_an_endless_season_is_lazy() -> None:
    events = season(2, BEGAN_MS, 1, rounds=None)
    assert len(list(islice(events, 2_000))) == 2_000


def test_hastened_matches_keep_their_course() -> None:
    events = list(season(2, BEGAN_MS, 1))
    found = list(faster(events, BEGAN_MS, 60))
    assert [event.event for event in found] == [event.event for event in events]
    assert found[-1].time_ms - BEGAN_MS == pytest.approx((events[-1].time_ms - BEGAN_MS) / 60, abs=1)
    assert {event.started_ms for event in found} == {BEGAN_MS}


def test_disturbed_events_arrive_in_order_of_arrival_and_none_is_lost() -> None:
    events = list(season(3, BEGAN_MS, 1))
    arrivals = list(disturbed(events, Random(1), duplicates=0.1, late=0.2, late_ms_max=30_000))
    assert all(before.time_ms <= after.time_ms for before, after in pairwise(arrivals))
    counts = Counter((arrival.event.match, arrival.event.number) for arrival in arrivals)
    assert counts.keys() == {(event.match, event.number) for event in events}
    assert set(counts.values()) == {1, 2}
    late = [arrival for arrival in arrivals if arrival.time_ms > arrival.event.time_ms]
    assert late, "some are late"
    assert all(arrival.time_ms - arrival.event.time_ms <= 60_000 for arrival in late)
    assert [arrival.event for arrival in arrivals] != events


def test_nothing_is_disturbed_unasked() -> None:
    events = list(season(3, BEGAN_MS, 1))
    arrivals = disturbed(events, Random(1), duplicates=0, late=0)
    assert [(arrival.time_ms, arrival.event) for arrival in arrivals] == [(e.time_ms, e) for e in events]


@pytest.mark.parametrize("rate", [0.5, 100.0, 1e6])
def test_events_at_a_rate_never_run_ahead_of_it(rate: float) -> None:
    events = list(at_rate(season(1, BEGAN_MS, 3, rounds=3), BEGAN_MS, rate))
    assert all(
        event.started_ms <= event.time_ms <= BEGAN_MS + number * 1000 / rate + 2
        for number, event in enumerate(events)
    )
    assert all(before.time_ms <= after.time_ms for before, after in pairwise(events))
    rounds = [event.started_ms for event in events if event.number == 1]
    assert len(set(rounds)) == 3, "each match is one of its own"
    assert len({event.started_ms for event in events}) == 3
