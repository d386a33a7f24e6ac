"""A generator of basketball matches: any number in parallel, always the same for the same seed.

A match is a sequence of possessions under the international rules: four quarters of ten minutes, overtimes of five
minutes while the score is equal, free throws after a foul on a shot and from a team's fifth foul of a quarter on.
Breaks and free throws take wall-clock time but no game time. A match depends only on the seed and its name, not on the
other matches.

`season` merges the events of matches by time. `faster` shortens their times, `at_rate` spaces the events evenly; in
both cases an event is not sent before its time. `disturbed` simulates a network: some events arrive twice, some late.
All are lazy, so a season can be endless. Pure: the time is simulated, random numbers are seeded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

import msgspec

from ottla.scoreboard.match import QUARTERS, VERSUS, Kind, MatchEvent, Side

TEAMS: Final = (
    "Canada", "USA", "France", "Spain", "Japan", "Brazil", "Kenya", "Ghana", "Italy", "Peru", "Serbia", "Greece",
    "Germany", "Latvia", "China", "Egypt", "Mexico", "Angola", "Turkey", "Poland", "Finland", "Israel", "Senegal",
    "Chile",
)  # fmt: skip
QUARTER_S: Final = 600
OVERTIME_S: Final = 300
BREAK_S: Final = 120
HALF_TIME_S: Final = 900
BONUS_FOULS: Final = 5
"""From this foul of a quarter on, every foul of a team gives the other free throws."""
ROUND_MS: Final = 3 * 3_600_000
"""The time between two rounds of a season, longer than a match usually takes."""

FASTEST: Final = 100_000.0
"""Events per second that no producer exceeds."""

_OUTCOMES: Final = ("two", "three", "shot foul", "foul", "nothing")
_WEIGHTS: Final = (0.27, 0.10, 0.10, 0.08, 0.45)
_FREE_THROW_HIT: Final = 0.75


@dataclass(frozen=True)
class Fixture:
    """A match to play."""

    match: str
    started_ms: int


@dataclass(frozen=True, order=True)
class Arrival:
    """An event with the time at which it is sent; sorted by that time."""

    time_ms: int
    event: MatchEvent = field(compare=False)


def fixtures(count: int, started_ms: int) -> list[Fixture]:
    """`count` matches with different names and the same start."""
    names: list[str] = []
    leg, distance = 1, 1
    while len(names) < count:
        pairs = range(0, len(TEAMS), 2) if distance == 1 else range(len(TEAMS))
        for first in pairs:
            name = f"{TEAMS[first]}{VERSUS}{TEAMS[(first + distance) % len(TEAMS)]}"
            names.append(name if leg == 1 else f"{name} {leg}")
        distance += 1
        if distance == len(TEAMS):
            leg, distance = leg + 1, 1
    return [Fixture(name, started_ms) for name in names[:count]]


def season(count: int, started_ms: int, seed: int, *, rounds: int | None = 1) -> Iterator[MatchEvent]:
    """All events of `rounds` times `count` parallel matches by event time; None for endless rounds."""
    number = 0
    while rounds is None or number < rounds:
        matches = fixtures(count, started_ms + number * ROUND_MS)
        games = [play(each, Random(f"{seed}/{number}/{each.match}")) for each in matches]
        yield from heapq.merge(*games, key=lambda event: event.time_ms)
        number += 1


def faster(events: Iterable[MatchEvent], origin_ms: int, speed: float) -> Iterator[MatchEvent]:
    """The same matches, `speed` times as fast: event times and tip-offs are scaled."""

    def scaled(time_ms: int) -> int:
        return origin_ms + round((time_ms - origin_ms) / speed)

    for event in events:
        yield msgspec.structs.replace(
            event, time_ms=scaled(event.time_ms), started_ms=scaled(event.started_ms)
        )


def at_rate(events: Iterable[MatchEvent], origin_ms: int, rate: float) -> Iterator[MatchEvent]:
    """The same matches at a rate of events per second.

    The matches of a round begin with its first event, and after those of the round before.
    """
    known_ms, round_ms = None, origin_ms - 1
    for number, event in enumerate(events):
        time_ms = origin_ms + int(number * 1000 / rate)
        if event.started_ms != known_ms:
            known_ms, round_ms = event.started_ms, max(time_ms, round_ms + 1)
        yield msgspec.structs.replace(event, time_ms=max(time_ms, round_ms), started_ms=round_ms)


def disturbed(
    events: Iterable[MatchEvent], rng: Random, *, duplicates: float, late: float, late_ms_max: int = 20_000
) -> Iterator[Arrival]:
    """Events in the order of arrival; the shares `duplicates` and `late` arrive twice and late."""
    waiting: list[Arrival] = []
    for event in events:
        while waiting and waiting[0].time_ms <= event.time_ms:
            yield heapq.heappop(waiting)
        delay_ms = rng.randint(1, late_ms_max) if rng.random() < late else 0
        copies = 2 if rng.random() < duplicates else 1
        for _ in range(copies):
            heapq.heappush(waiting, Arrival(event.time_ms + delay_ms, event))
            delay_ms += rng.randint(0, late_ms_max)
    while waiting:
        yield heapq.heappop(waiting)


def play(fixture: Fixture, rng: Random) -> Iterator[MatchEvent]:
    """The events of one match."""
    return _Game(fixture, rng).events()


class _Game:
    """The state of a match."""

    def __init__(self, fixture: Fixture, rng: Random) -> None:
        self._fixture, self._rng = fixture, rng
        self._time_ms, self._number, self._quarter, self._left_s = fixture.started_ms, 0, 0, 0.0
        self._points: dict[Side, int] = {"home": 0, "away": 0}
        self._fouls: dict[Side, int] = {"home": 0, "away": 0}
        self._skill: dict[Side, float] = {"home": rng.gauss(0.52, 0.03), "away": rng.gauss(0.5, 0.03)}

    def events(self) -> Iterator[MatchEvent]:
        while self._quarter < QUARTERS or self._points["home"] == self._points["away"]:
            yield from self._play_quarter()
        yield self._event("match end", "Match End")

    def _play_quarter(self) -> Iterator[MatchEvent]:
        if self._quarter:
            self._pass_s(HALF_TIME_S if self._quarter == QUARTERS // 2 else BREAK_S)
        self._quarter += 1
        self._left_s = QUARTER_S if self._quarter <= QUARTERS else OVERTIME_S
        self._fouls = {"home": 0, "away": 0}
        yield self._event("quarter start", "Quarter Start")
        attack: Side = self._rng.choice(("home", "away"))
        while self._left_s > 0:
            yield from self._possession(attack)
            attack = _other(attack)
        yield self._event("quarter end", "Quarter End")

    def _possession(self, attack: Side) -> Iterator[MatchEvent]:
        lasted_s = min(max(self._rng.gauss(14.5, 5.0), 3.0), 24.0, self._left_s)
        self._left_s -= lasted_s
        self._pass_s(lasted_s)
        outcome = self._rng.choices(_OUTCOMES, _WEIGHTS)[0]
        # The better team scores with some possessions that would otherwise have no result.
        if outcome == "nothing" and self._rng.random() < self._skill[attack] - 0.48:
            outcome = "two"
        if outcome in {"two", "three"}:
            yield self._score(attack, 2 if outcome == "two" else 3)
        elif outcome == "shot foul":
            yield self._foul(_other(attack))
            yield from self._free_throws(attack)
        elif outcome == "foul":
            side: Side = _other(attack) if self._rng.random() < 0.8 else attack
            yield self._foul(side)
            if self._fouls[side] >= BONUS_FOULS and side != attack:
                yield from self._free_throws(attack)

    def _free_throws(self, side: Side) -> Iterator[MatchEvent]:
        player = self._player()
        for _ in range(2):
            self._pass_s(self._rng.uniform(8, 15))
            yield self._event("free throw", "Free Throw", side, player)
            if self._rng.random() < _FREE_THROW_HIT:
                yield self._score(side, 1, player)

    def _foul(self, side: Side) -> MatchEvent:
        self._fouls[side] += 1
        event = self._event("foul", "Foul", side, self._player())
        self._pass_s(self._rng.uniform(5, 20))
        return event

    def _score(self, side: Side, points: int, player: int | None = None) -> MatchEvent:
        self._points[side] += points
        text = f"Score {self._points['home']}-{self._points['away']}"
        return self._event("score", text, side, self._player() if player is None else player, points)

    def _event(
        self, kind: Kind, text: str, side: Side | None = None, player: int | None = None, points: int = 0
    ) -> MatchEvent:
        self._number += 1
        left_s = round(self._left_s)
        return MatchEvent(
            match=self._fixture.match,
            started_ms=self._fixture.started_ms,
            number=self._number,
            time_ms=self._time_ms,
            quarter=self._quarter,
            clock=f"{left_s // 60:02d}:{left_s % 60:02d}",
            kind=kind,
            event=text,
            side=side,
            player=player,
            points=points,
            home_points=self._points["home"],
            away_points=self._points["away"],
        )

    def _player(self) -> int:
        return self._rng.randint(4, 15)

    def _pass_s(self, seconds: float) -> None:
        self._time_ms += round(seconds * 1000)


def _other(side: Side) -> Side:
    return "away" if side == "home" else "home"
