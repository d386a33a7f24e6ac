"""The events of a basketball match: the values of the topic `matches`. The key is the name of the match.

An event is one JSON object. `number` counts the events of a match from 1, so (match, started_ms, number) identifies an
event; a second one with the same identity is a duplicate. `time_ms` is the event time, which is earlier than the time
of arrival. The points are those after the event, so the newest event has the score even if others are missing. Pure.
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
    """One event of a match."""

    match: str
    started_ms: int
    """The time of the tip-off, which distinguishes matches of the same two teams."""
    number: int
    time_ms: int
    quarter: int
    """From 1; 5 is the first overtime."""
    clock: str
    """The remaining time of the quarter, as MM:SS."""
    kind: Kind
    event: str
    """The text of the event: `Foul`, `Score 39-46`."""
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
    """The home team and the away team, from the name of the match."""
    home, _, away = match.partition(VERSUS)
    return home, away


def quarter_name(quarter: int) -> str:
    return f"Q{quarter}" if quarter <= QUARTERS else f"OT{quarter - QUARTERS}"
