"""Plays scenarios on both brokers and reports the differences that are not deliberate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import Deliberate, Difference, differences
from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.player import Player
from tests.support.raw import Address


@dataclass(repr=False)
class Comparator:
    """Both brokers, the number of compared responses, and the deliberate differences that occurred."""

    kafka: Address
    ottla: Address
    seen: set[Deliberate] = field(default_factory=set)
    played: set[str] = field(default_factory=set)
    compared: int = 0

    def unexplained(self, scenario: Scenario) -> list[Difference]:
        """Return the differences between the two transcripts of a scenario, without the deliberate ones."""
        players = [Player(address, scenario.title, scenario.version) for address in (self.kafka, self.ottla)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(scenario.play, players))
        for player in players:
            player.reconnect()
        self.played.add(scenario.title)
        self.compared += len(players[0].asked)
        left = []
        for difference in differences(scenario, *(player.asked for player in players)):
            explained = [one for one in DELIBERATE if one.covers(difference)]
            self.seen.update(explained)
            if not explained:
                left.append(difference)
        return left
