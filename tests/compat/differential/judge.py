"""Plays scenarios on both brokers and says what nothing excuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import Deliberate, Difference, differences
from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.player import Player
from tests.support.raw import Address


@dataclass(repr=False)
class Judge:
    """Both brokers, what was asked of them, and which of the deliberate differences showed."""

    kafka: Address
    ottla: Address
    seen: set[Deliberate] = field(default_factory=set)
    played: set[str] = field(default_factory=set)
    questions: int = 0

    def unexplained(self, scenario: Scenario) -> list[Difference]:
        """The differences between the two transcripts of a scenario, without the deliberate ones."""
        players = [Player(address, scenario.title, scenario.version) for address in (self.kafka, self.ottla)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(scenario.play, players))
        for player in players:
            player.reconnect()
        self.played.add(scenario.title)
        self.questions += len(players[0].asked)
        left = []
        for difference in differences(scenario, *(player.asked for player in players)):
            excuses = [one for one in DELIBERATE if one.covers(difference)]
            self.seen.update(excuses)
            if not excuses:
                left.append(difference)
        return left
