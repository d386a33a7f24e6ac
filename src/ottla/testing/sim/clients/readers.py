"""Readers of all partitions from their beginning, of committed or of all records."""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.fetch import Fetcher
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.cluster import Cluster


class Reader(Client):
    """Reads all topics; each response is compared with the logs."""

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0, *, committed: bool) -> None:
        super().__init__(cluster, client_id, incarnation)
        self.committed = committed
        # Some readers read from any replica, as consumers with a preferred replica do (KIP-392).
        follows = cluster.stream(f"replicas of {client_id}").random() < 0.5
        self._fetcher = Fetcher(self, committed=committed, from_followers=follows)
        self.positions: dict[TopicPartition, int] = {}
        """Below these offsets everything was read and recorded."""
        self.seen = 0

    def next_incarnation(self) -> Client:
        return type(self)(self.cluster, self.client_id, self.incarnation + 1, committed=self.committed)

    async def run(self) -> None:
        if self.committed:
            self.cluster.txns.history.reads_committed(self.name)
        positions = {tp: 0 for topic in self.cluster.topics for tp in self.cluster.partitions(topic)}
        while True:
            try:
                found = await self._fetcher.fetch(positions, 500)
            except NoResponse:
                await self.process.backoff()
                continue
            self.cluster.txns.read(self.name, found)
            self.positions = dict(positions)
            seen = sum(map(len, found.values()))
            self.seen += seen
            self.kernel.count("records read", seen)
            if not seen:
                await self.process.sleep(100)
