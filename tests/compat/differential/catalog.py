"""The list of scenarios: each a function, played in every version of the API it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.wire.schema import Message
from tests.compat.differential.player import Player

Play = Callable[[Player], None]


@dataclass(frozen=True)
class Scenario:
    name: str
    play: Play
    version: int

    @property
    def title(self) -> str:
        return f"{self.name}-v{self.version}"


SCENARIOS: list[Scenario] = []


def scenario(
    request: type[Message], *, since: int = 0, until: int = 99, newest_only: bool = False
) -> Callable[[Play], Play]:
    """Play this in every version of the request between `since` and `until`, or in the newest alone."""

    def add(play: Play) -> Play:
        versions = [version for version in request.SPEC.versions if since <= version <= until]
        for version in versions[-1:] if newest_only else versions:
            SCENARIOS.append(Scenario(play.__name__.replace("_", "-"), play, version))
        return play

    return add
