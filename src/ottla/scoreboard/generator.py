"""Plays basketball matches: any number in parallel, each the same for the same seed.

A match is a chain of possessions under the international rules: four quarters of ten minutes, overtimes of five
while it is level, free throws after a foul on a shot and from a team's fifth foul of a quarter on. Breaks and
free throws take time on the wall but not on the clock. A match depends on the seed and its own name only, so the
same match is played whatever else is on.

`season` merges matches by the time of their events; `faster` plays them faster, `at_rate` so many events a second, and
either way an event happens when it is sent, never later; `disturbed` is what a network makes
of it: some events arrive twice, some late. All are lazy, so endless seasons cost nothing.
Pure: time is simulated, chance is seeded.
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
"""From one round of a season to the next: longer than any match but the strangest."""

FASTEST: Final = 100_000.0
"""Events a second that nobody sends faster than."""

_OUTCOMES: Final = ("two", "three", "shot foul", "foul", "nothing")
_WEIGHTS: Final = (0.27, 0.10, 0.10, 0.08, 0.45)
_FREE_THROW_HIT: Final = 0.75


@dataclass(frozen=True)
class Fixture:
    """A match to be played."""

    match: str
    started_ms: int


@dataclass(frozen=True, order=True)
class Arrival:
    """An event as it reaches the producer; earlier ones sort first."""

    time_ms: int
    event: MatchEvent = field(compare=False)


def fixtures(count: int, started_ms: int) -> list[Fixture]:
    """`count` matches with names of their own that begin together."""
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
    """All events of `rounds` times `count` parallel matches in the order of their happening; None never ends."""
    number = 0
    while rounds is None or number < rounds:
        matches = fixtures(count, started_ms + number * ROUND_MS)
        games = [play(each, Random(f"{seed}/{number}/{each.match}")) for each in matches]
        yield from heapq.merge(*games, key=lambda event: event.time_ms)
        number += 1


def faster(events: Iterable[MatchEvent], origin_ms: int, speed: float) -> Iterator[MatchEvent]:
    """The same matches played so many times faster, times of events and tip-offs included."""

    def moved(time_ms: int) -> int:
        return origin_ms + round((time_ms - origin_ms) / speed)

    for event in events:
        yield msgspec.structs.replace(event, time_ms=moved(event.time_ms), started_ms=moved(event.started_ms))


def at_rate(events: Iterable[MatchEvent], origin_ms: int, rate: float) -> Iterator[MatchEvent]:
    """The same matches, so many events a second: each happens a moment after the one before.

    The matches of a round begin with its first event, and later than those of the round before.
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
    """Events in the order of their arrival, of which this share comes again and this share late."""
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
    """One match from tip-off to the end."""
    return _Game(fixture, rng).events()


class _Game:
    """A match under way."""

    def __init__(self, fixture: Fixture, rng: Random) -> None:
        self._fixture, self._rng = fixture, rng
        self._time_ms, self._number, self._quarter, self._left_s = fixture.started_ms, 0, 0, 0.0
        self._points: dict[Side, int] = {"home": 0, "away": 0}
        self._fouls: dict[Side, int] = {"home": 0, "away": 0}
        self._skill: dict[Side, float] = {"home": rng.gauss(0.52, 0.03), "away": rng.gauss(0.5, 0.03)}

    def events(self) -> Iterator[MatchEvent]:
        while self._quarter < QUARTERS or self._points["home"] == self._points["away"]:
            yield from self._play_quarter()
        yield self._tell("match end", "Match End")

    def _play_quarter(self) -> Iterator[MatchEvent]:
        if self._quarter:
            self._pass_s(HALF_TIME_S if self._quarter == QUARTERS // 2 else BREAK_S)
        self._quarter += 1
        self._left_s = QUARTER_S if self._quarter <= QUARTERS else OVERTIME_S
        self._fouls = {"home": 0, "away": 0}
        yield self._tell("quarter start", "Quarter Start")
        attack: Side = self._rng.choice(("home", "away"))
        while self._left_s > 0:
            yield from self._possession(attack)
            attack = _other(attack)
        yield self._tell("quarter end", "Quarter End")

    def _possession(self, attack: Side) -> Iterator[MatchEvent]:
        lasted_s = min(max(self._rng.gauss(14.5, 5.0), 3.0), 24.0, self._left_s)
        self._left_s -= lasted_s
        self._pass_s(lasted_s)
        outcome = self._rng.choices(_OUTCOMES, _WEIGHTS)[0]
        # The better team makes good of some of its chances that would have come to nothing.
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
            yield self._tell("free throw", "Free Throw", side, player)
            if self._rng.random() < _FREE_THROW_HIT:
                yield self._score(side, 1, player)

    def _foul(self, side: Side) -> MatchEvent:
        self._fouls[side] += 1
        event = self._tell("foul", "Foul", side, self._player())
        self._pass_s(self._rng.uniform(5, 20))
        return event

    def _score(self, side: Side, points: int, player: int | None = None) -> MatchEvent:
        self._points[side] += points
        words = f"Score {self._points['home']}-{self._points['away']}"
        return self._tell("score", words, side, self._player() if player is None else player, points)

    def _tell(
        self, kind: Kind, words: str, side: Side | None = None, player: int | None = None, points: int = 0
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
            event=words,
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
