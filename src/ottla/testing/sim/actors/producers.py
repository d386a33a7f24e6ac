"""Those who write: a steady source, and transactional producers that commit, abort, forget and come back."""

from __future__ import annotations

from ottla.testing.sim.actors.actor import Actor
from ottla.testing.sim.actors.producing import MustAbort, Session, TxnSession
from ottla.testing.sim.world import World


class Source(Actor):
    """Writes to one topic, outside of transactions, until the run closes."""

    topic = "in"

    async def live(self) -> None:
        session = Session(self)
        await session.init()
        number = 0
        while not self.world.closing:
            place = self.rng.choice(self.world.places(self.topic))
            count = self.rng.randrange(1, 6)
            values = [f"{self.who}/{self.life}/0/{number + each}" for each in range(count)]
            number += count
            await session.produce(place, values)
            await self.process.sleep(self.rng.uniform(50, 600))


class TxnProducer(Actor):
    """Writes transactions over several partitions; some it aborts, some it leaves open for too long."""

    topic = "txn"

    def __init__(self, world: World, who: str, life: int = 0) -> None:
        super().__init__(world, who, life)
        traits = world.kernel.stream(f"traits of {who}")
        generation = traits.choice((1, 2))
        self.session = TxnSession(self, generation=generation, timeout_ms=traits.choice((2000, 4000, 8000)))

    async def live(self) -> None:
        await self.session.init()
        while not self.world.closing:
            await self._transaction()
            await self.process.sleep(self.rng.uniform(20, 800))

    async def _transaction(self) -> None:
        session, rng = self.session, self.rng
        txn = session.begin()
        places = rng.sample(
            self.world.places(self.topic), rng.randrange(1, self.world.topics[self.topic] + 1)
        )
        number = 0
        try:
            for place in places:
                await session.add([place])
                for _ in range(rng.randrange(1, 3)):
                    count = rng.randrange(1, 4)
                    values = [f"{txn.name}/{number + each}" for each in range(count)]
                    number += count
                    await session.produce(place, values, txn)
                    if rng.random() < 0.2:
                        await self.process.sleep(rng.uniform(0, 500))
            if rng.random() < 0.05:
                self.kernel.count("transactions left to time out")
                await self.process.sleep(12_000)
            await session.end(txn, committed=rng.random() < 0.7)
        except MustAbort:
            await session.give_up(txn)
