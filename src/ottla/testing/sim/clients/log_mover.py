"""Client that moves replicas between the log directories of their brokers (AlterReplicaLogDirs).

It names any broker, replica and directory of the cluster: moves are repeated, replaced by others and ended. The cluster
must finish all of them (`convergence`).
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.testing.sim.clients.client import RETRIABLE, Client
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.clients.routes import NodeRoute
from ottla.testing.sim.cluster import OFFSETS_TOPIC, TXN_TOPIC
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)

E = ErrorCode


class LogMover(Client):
    """Moves one replica after another until the end of the scenario."""

    async def run(self) -> None:
        cluster, rng = self.cluster, self.rng
        routes = {node.node_id: NodeRoute(self.routes, node.node_id) for node in cluster.brokers}
        counts = {**cluster.topics, OFFSETS_TOPIC: 2, TXN_TOPIC: 2}
        while not cluster.ending:
            await self.process.sleep(rng.uniform(50, 800))
            node, topic = rng.choice(cluster.brokers), rng.choice(sorted(counts))
            partitions = [rng.randrange(counts[topic])]
            target = AlterReplicaLogDir(
                path=rng.choice(node.spec.log_dirs),
                topics=[AlterReplicaLogDirTopic(name=topic, partitions=partitions)],
            )
            try:
                if node.node_id not in self.routes.brokers:
                    await self.routes.refresh()
                await self._move(routes[node.node_id], AlterReplicaLogDirsRequest(dirs=[target]))
            except NoResponse:
                continue

    async def _move(self, route: NodeRoute, request: AlterReplicaLogDirsRequest) -> None:
        response = await route.request(request, 2, AlterReplicaLogDirsResponse)
        for topic in response.results:
            for each in topic.partitions:
                error = self.expect(
                    each.error_code, E.NONE, E.REPLICA_NOT_AVAILABLE, RETRIABLE, doing="AlterReplicaLogDirs"
                )
                self.kernel.count("moves between directories", error is E.NONE)
