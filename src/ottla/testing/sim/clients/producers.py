"""Producers: one without transactions, and transactional ones that commit, abort or time out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.pipelined_session import PipelinedSession
from ottla.testing.sim.clients.producer_session import MustAbort, ProducerSession, TransactionalSession
from ottla.testing.sim.cluster import Cluster


class Source(Client):
    """Writes to one topic, without transactions, until the end of the scenario.

    In some seeds it has one batch in flight; in the others up to five of each partition.
    """

    topic = "in"

    async def run(self) -> None:
        kind = self.cluster.stream(f"traits of {self.client_id}").choice(
            ("single", "single", "java", "librdkafka")
        )
        if kind == "single":
            single = ProducerSession(self)
            await single.init()
            await self._write(single.produce, pause_ms=600)
        else:
            pipelined = PipelinedSession(self, retries_singly=kind == "java")
            await pipelined.init()
            await self._write(pipelined.produce, pause_ms=100)
            await pipelined.flush()

    async def _write(
        self, produce: Callable[[TopicPartition, list[str]], Awaitable[None]], pause_ms: int
    ) -> None:
        rng, number = self.rng, 0
        while not self.cluster.ending:
            tp = rng.choice(self.cluster.partitions(self.topic))
            count = rng.randrange(1, 6)
            values = [f"{self.client_id}/{self.incarnation}/0/{number + each}" for each in range(count)]
            number += count
            await produce(tp, values)
            await self.process.sleep(rng.uniform(pause_ms / 12, pause_ms))


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
