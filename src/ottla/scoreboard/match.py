"""What happens in a basketball match, as events: the values of the topic `matches`, keyed by the match's name.

An event is one JSON object. `number` counts the events of a match from 1, so (match, started_ms, number) names an
event for ever: a copy of it is a duplicate. `time_ms` is when it happened, which is not when it arrives. The points
are those after the event, so the newest event tells the score even when others before it are missing. Pure.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal["quarter start", "foul", "free throw", "score", "quarter end", "match end"]
Side = Literal["home", "away"]

VERSUS: Final = " vs "
QUARTERS: Final = 4
EVENT_DDL: Final = (
    "match STRING, started_ms BIGINT, number INT, time_ms BIGINT, quarter INT, clock STRING, kind STRING, "
    "event STRING, side STRING, player INT, points INT, home_points INT, away_points INT"
)
"""The columns of an event, for Spark."""


class MatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    match: str
    started_ms: int
    """The tip-off: with the name it tells one match of two teams from their next."""
    number: int
    time_ms: int
    quarter: int
    """From 1; 5 is the first overtime."""
    clock: str
    """What is left of the quarter, as the hall's clock shows it."""
    kind: Kind
    event: str
    """The event in words: `Foul`, `Score 39-46`."""
    side: Side | None = None
    player: int | None = None
    """The number on the shirt."""
    points: int = 0
    home_points: int = 0
    away_points: int = 0


def encode(event: MatchEvent) -> bytes:
    return msgspec.json.encode(event)


def decode(value: bytes) -> MatchEvent:
    return msgspec.json.decode(value, type=MatchEvent)


def teams(match: str) -> tuple[str, str]:
    """The home team and the away team of a match by its name."""
    home, _, away = match.partition(VERSUS)
    return home, away


def quarter_name(quarter: int) -> str:
    return f"Q{quarter}" if quarter <= QUARTERS else f"OT{quarter - QUARTERS}"
