"""The rules of the scoreboard in plain Python, and the values of the topics `scoreboard` and `statistics`.

Tests compare the pipeline on Spark with these rules. They depend on the *set* of events and on the event time, not on
the order of arrival:

- score, quarter, clock and last event are those of the newest event by (time_ms, number);
- a team's fouls are its distinct foul events, by number;
- the figures of a window count the distinct events with a time in it.

So duplicates change nothing, and a late event never changes a score back to an older one. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from ottla.scoreboard.match import MatchEvent

WINDOW_MS: Final = 60_000
LATE_MS_MAX: Final = 120_000
"""How much older than the newest event an event may be to count in the statistics."""
AHEAD_MS_MAX: Final = 300_000
"""How far the time of an event may be ahead of the timestamp of its record."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one match: a row of the scoreboard."""

    match: str
    started_ms: int
    home_points: int
    away_points: int
    quarter: int
    clock: str
    home_fouls: int
    away_fouls: int
    last_event: str
    last_event_ms: int
    number: int
    """Of the last event."""
    ended: bool

    @property
    def age(self) -> tuple[int, int, int]:
        """The sort key of the rows of a match and of later matches of the same teams: the greatest is the newest."""
        return self.started_ms, self.last_event_ms, self.number


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """One match in one window of event time."""

    match: str
    started_ms: int
    window_start_ms: int
    window_end_ms: int
    events: int
    home_points: int
    away_points: int
    fouls: int
    free_throws: int


def distinct(events: Iterable[MatchEvent]) -> list[MatchEvent]:
    return list({(event.match, event.started_ms, event.number): event for event in events}.values())


def standing(events: Iterable[MatchEvent]) -> Standing:
    """Of one match, of which at least one event is known."""
    known = distinct(events)
    newest = max(known, key=lambda event: (event.time_ms, event.number))
    fouls = [event.side for event in known if event.kind == "foul"]
    return Standing(
        match=newest.match,
        started_ms=newest.started_ms,
        home_points=newest.home_points,
        away_points=newest.away_points,
        quarter=newest.quarter,
        clock=newest.clock,
        home_fouls=fouls.count("home"),
        away_fouls=fouls.count("away"),
        last_event=newest.event,
        last_event_ms=newest.time_ms,
        number=newest.number,
        ended=newest.kind == "match end",
    )


def standings(events: Iterable[MatchEvent]) -> dict[tuple[str, int], Standing]:
    """By match and tip-off."""
    matches: dict[tuple[str, int], list[MatchEvent]] = defaultdict(list)
    for event in events:
        matches[event.match, event.started_ms].append(event)
    return {match: standing(known) for match, known in matches.items()}


def statistics(
    events: Iterable[MatchEvent], window_ms: int = WINDOW_MS
) -> dict[tuple[str, int, int], Statistics]:
    """By match, tip-off and start of the window; of events none of which came too late."""
    windows: dict[tuple[str, int, int], list[MatchEvent]] = defaultdict(list)
    for event in distinct(events):
        windows[event.match, event.started_ms, event.time_ms // window_ms * window_ms].append(event)
    return {place: _figures(place, known, window_ms) for place, known in windows.items()}


def _figures(place: tuple[str, int, int], known: list[MatchEvent], window_ms: int) -> Statistics:
    match, started_ms, start_ms = place
    return Statistics(
        match=match,
        started_ms=started_ms,
        window_start_ms=start_ms,
        window_end_ms=start_ms + window_ms,
        events=len(known),
        home_points=sum(event.points for event in known if event.side == "home"),
        away_points=sum(event.points for event in known if event.side == "away"),
        fouls=sum(event.kind == "foul" for event in known),
        free_throws=sum(event.kind == "free throw" for event in known),
    )
