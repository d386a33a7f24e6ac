"""Two-phase commit: one process writes and prepares, dies, and another one ends what it knows by its numbers.

The preparer's transaction has no timeout. Who ends it may come after any number of restarts of the broker.
"""

from __future__ import annotations

from ottla.testing.sim.actors.actor import TXN, Actor
from ottla.testing.sim.actors.producing import MustAbort, TxnSession
from ottla.testing.sim.txn_ledger import Txn
from ottla.testing.sim.world import World


class Preparer(Actor):
    """Writes one transaction and leaves it prepared. `prepared` is set when it has told so."""

    topic = "txn"

    def __init__(self, world: World, who: str, life: int = 0) -> None:
        super().__init__(world, who, life)
        self.session = TxnSession(self, generation=2, timeout_ms=2000, two_phase=True)
        self.prepared: Txn | None = None

    async def live(self) -> None:
        session = self.session
        await session.init()
        txn = session.begin()
        txn.never_alone = True
        number = 0
        for place in self.rng.sample(self.world.places(self.topic), self.rng.randrange(1, 3)):
            values = [f"{txn.name}/{number + each}" for each in range(2)]
            number += 2
            try:
                await session.add([place])
                await session.produce(place, values, txn)
            except MustAbort:
                await session.give_up(txn)
                return
        self.kernel.count("transactions prepared")
        self.prepared = txn


class Finisher(Actor):
    """Ends a prepared transaction that another process left behind."""

    def __init__(self, world: World, who: str, life: int = 0, *, left: Preparer) -> None:
        super().__init__(world, who, life)
        self._left = left

    def again(self) -> Actor:
        return type(self)(self.world, self.who, self.life + 1, left=self._left)

    async def live(self) -> None:
        left = self._left
        await self.process.sleep(self.rng.uniform(100, 15_000))
        if left.prepared is None:
            return
        await self.find_coordinator(TXN, left.who)
        # The same numbers, another process: only the wire is this one's.
        session = left.session
        session.actor, session.wire = self, self.wire
        # Whoever comes after one that died knows its decision.
        committed = self.kernel.stream(f"end of {left.name}").random() < 0.6
        await session.end(left.prepared, committed=committed)
        self.kernel.count("transactions ended by another process")
