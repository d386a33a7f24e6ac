"""The scoreboard on devices: narrow on a mobile, wide on a computer, drawn with rich.

A `Board` keeps the newest standing of each match in any order of arrival, so a device that reads a record again, for
example after a rebalance, does not show an old score. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ottla.scoreboard.match import quarter_name, teams
from ottla.scoreboard.standings import Standing

MOBILE_WIDTH: Final = 30
COMPUTER_WIDTH: Final = 84


@dataclass
class Board:
    """The newest standing of each match."""

    standings: dict[str, Standing] = field(default_factory=dict)

    def show(self, standing: Standing) -> bool:
        """Store a standing unless it is older than the stored one; return whether the board has changed."""
        known = self.standings.get(standing.match)
        if known is not None and known.age >= standing.age:
            return False
        self.standings[standing.match] = standing
        return True

    def ended(self, matches: int, started_ms: int) -> bool:
        """Whether so many matches that began at or after this time have ended."""
        over = [each for each in self.standings.values() if each.ended and each.started_ms >= started_ms]
        return len(over) >= matches


def mobile(standings: Mapping[str, Standing], owners: str) -> Panel:
    """Narrow: three lines per match, and one for each member of the group."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=True)
    table.add_column()
    table.add_column(justify="right")
    for each in _sorted(standings):
        home, away = teams(each.match)
        leads = each.home_points - each.away_points
        table.add_row(_team(home, leads > 0), _team(str(each.home_points), leads > 0))
        table.add_row(_team(away, leads < 0), _team(str(each.away_points), leads < 0))
        table.add_row(Text(moment(each), style="dim"), "")
    members = [Text(owner, style="dim") for owner in owners.split("  ")]
    return Panel(Group(table, *members), title="mobile", width=MOBILE_WIDTH)


def computer(standings: Mapping[str, Standing], owners: str) -> Panel:
    """Wide: one line per match, with all figures."""
    table = Table(box=None, expand=True, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("match", no_wrap=True)
    table.add_column("score", justify="center", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("fouls", justify="center", no_wrap=True)
    table.add_column("last event", no_wrap=True, ratio=1)
    for each in _sorted(standings):
        home, away = teams(each.match)
        leads = each.home_points - each.away_points
        table.add_row(
            Text.assemble(_team(home, leads > 0), (" vs ", "dim"), _team(away, leads < 0)),
            Text(score(each), style="bold"),
            moment(each),
            f"{each.home_fouls}-{each.away_fouls}",
            each.last_event,
        )
    return Panel(table, title="computer", subtitle=Text(owners, style="dim"), width=COMPUTER_WIDTH)


def line(standing: Standing) -> str:
    """A standing as a line, for output that is not a terminal."""
    return (
        f"{standing.match}: {score(standing)} {moment(standing)}, fouls "
        f"{standing.home_fouls}-{standing.away_fouls}, {standing.last_event}"
    )


def score(standing: Standing) -> str:
    return f"{standing.home_points}-{standing.away_points}"


def moment(standing: Standing) -> str:
    if standing.ended:
        return "final"
    return f"{quarter_name(standing.quarter)} {standing.clock}"


def _team(text: str, leads: bool) -> Text:
    return Text(text, style="bold" if leads else "")


def _sorted(standings: Mapping[str, Standing]) -> list[Standing]:
    return sorted(standings.values(), key=lambda each: each.match)
