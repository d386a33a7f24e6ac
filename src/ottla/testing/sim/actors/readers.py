"""Those who only read, every partition from its beginning: with and without undecided records."""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.actors.actor import Actor
from ottla.testing.sim.actors.reading import fetch
from ottla.testing.sim.client import Unanswered
from ottla.testing.sim.world import World


class Reader(Actor):
    """Reads all topics; each answer is compared with the logs as it arrives."""

    def __init__(self, world: World, who: str, life: int = 0, *, committed: bool) -> None:
        super().__init__(world, who, life)
        self.committed = committed
        self.positions: dict[TopicPartition, int] = {}
        self.seen = 0

    def again(self) -> Actor:
        return type(self)(self.world, self.who, self.life + 1, committed=self.committed)

    async def live(self) -> None:
        self.positions = {place: 0 for topic in self.world.topics for place in self.world.places(topic)}
        while True:
            try:
                found = await fetch(self, self.wire, self.positions, committed=self.committed, wait_ms=500)
            except Unanswered:
                await self.process.backoff()
                continue
            seen = sum(map(len, found.values()))
            self.seen += seen
            self.kernel.count("records read", seen)
            if not seen:
                await self.process.sleep(100)
