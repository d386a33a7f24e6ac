"""Two-phase commit: one process writes and prepares a transaction, and another process ends it later.

The prepared transaction has no timeout. It may be ended after any number of restarts of the broker.
"""

from __future__ import annotations

from ottla.testing.sim.checkers.transactions import Txn
from ottla.testing.sim.clients.client import TXN, Client
from ottla.testing.sim.clients.producer_session import MustAbort, TransactionalSession
from ottla.testing.sim.cluster import Cluster


class Preparer(Client):
    """Writes one transaction and leaves it prepared; `prepared` is then set."""

    topic = "txn"

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0) -> None:
        super().__init__(cluster, client_id, incarnation)
        self.session = TransactionalSession(self, generation=2, timeout_ms=2000, two_phase=True)
        self.prepared: Txn | None = None

    async def run(self) -> None:
        session = self.session
        await session.init()
        txn = session.begin()
        txn.prepared = True
        number = 0
        for tp in self.rng.sample(self.cluster.partitions(self.topic), self.rng.randrange(1, 3)):
            values = [f"{txn.name}/{number + each}" for each in range(2)]
            number += 2
            try:
                await session.add([tp])
                await session.produce(tp, values, txn)
            except MustAbort:
                await session.abandon(txn)
                return
        self.kernel.count("transactions prepared")
        self.prepared = txn


class Finisher(Client):
    """Ends a prepared transaction of another process."""

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0, *, left: Preparer) -> None:
        super().__init__(cluster, client_id, incarnation)
        self._left = left

    def next_incarnation(self) -> Client:
        return type(self)(self.cluster, self.client_id, self.incarnation + 1, left=self._left)

    async def run(self) -> None:
        left = self._left
        await self.process.sleep(self.rng.uniform(100, 15_000))
        if left.prepared is None:
            return
        await self.find_coordinator(TXN, left.client_id)
        # The same producer id, epoch and sequence numbers, but the connections of this process.
        session = left.session
        session.move_to(self)
        # All incarnations of this client use the same decision.
        committed = self.cluster.stream(f"end of {left.name}").random() < 0.6
        await session.end(left.prepared, committed=committed)
        self.kernel.count("transactions ended by another process")
