"""Producers: one without transactions, and transactional ones that commit, abort or time out."""

from __future__ import annotations

from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.producer_session import MustAbort, ProducerSession, TransactionalSession
from ottla.testing.sim.cluster import Cluster


class Source(Client):
    """Writes to one topic, without transactions, until the end of the scenario."""

    topic = "in"

    async def run(self) -> None:
        session = ProducerSession(self)
        await session.init()
        number = 0
        while not self.cluster.ending:
            tp = self.rng.choice(self.cluster.partitions(self.topic))
            count = self.rng.randrange(1, 6)
            values = [f"{self.client_id}/{self.incarnation}/0/{number + each}" for each in range(count)]
            number += count
            await session.produce(tp, values)
            await self.process.sleep(self.rng.uniform(50, 600))


class TxnProducer(Client):
    """Writes transactions to several partitions; aborts some of them, and leaves some open until they time out."""

    topic = "txn"

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0) -> None:
        super().__init__(cluster, client_id, incarnation)
        traits = cluster.stream(f"traits of {client_id}")
        generation = traits.choice((1, 2))
        self.session = TransactionalSession(
            self, generation=generation, timeout_ms=traits.choice((2000, 4000, 8000))
        )

    async def run(self) -> None:
        await self.session.init()
        while not self.cluster.ending:
            await self._transaction()
            await self.process.sleep(self.rng.uniform(20, 800))

    async def _transaction(self) -> None:
        session, rng = self.session, self.rng
        txn = session.begin()
        partitions = rng.sample(
            self.cluster.partitions(self.topic), rng.randrange(1, self.cluster.topics[self.topic] + 1)
        )
        number = 0
        try:
            for tp in partitions:
                await session.add([tp])
                for _ in range(rng.randrange(1, 3)):
                    count = rng.randrange(1, 4)
                    values = [f"{txn.name}/{number + each}" for each in range(count)]
                    number += count
                    await session.produce(tp, values, txn)
                    if rng.random() < 0.2:
                        await self.process.sleep(rng.uniform(0, 500))
            if rng.random() < 0.05:
                self.kernel.count("transactions left to time out")
                await self.process.sleep(12_000)
            await session.end(txn, committed=rng.random() < 0.7)
        except MustAbort:
            await session.abandon(txn)
