"""Client that moves partitions to other brokers, changes their number of replicas, and cancels some reassignments."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.testing.sim.clients.client import RETRIABLE, Client
from ottla.testing.sim.cluster import OFFSETS_TOPIC, TXN_TOPIC
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

E = ErrorCode


class Reassigner(Client):
    """Reassigns one partition after another until the end of the scenario."""

    async def run(self) -> None:
        cluster, rng = self.cluster, self.rng
        brokers = [node.node_id for node in cluster.brokers]
        counts = {**cluster.topics, OFFSETS_TOPIC: 2, TXN_TOPIC: 2}
        while not cluster.ending:
            await self.process.sleep(rng.uniform(200, 2500))
            topic = rng.choice(sorted(counts))
            replicas = rng.sample(brokers, rng.choice((min(3, len(brokers)), 2)))
            cancels = rng.random() < 0.25
            target = ReassignablePartition(
                partition_index=rng.randrange(counts[topic]), replicas=None if cancels else replicas
            )
            await self._reassign(ReassignableTopic(name=topic, partitions=[target]))

    async def _reassign(self, topic: ReassignableTopic) -> None:
        request = AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[topic])
        response = await self.retried(self.connection, request, 1, AlterPartitionReassignmentsResponse)
        results = [each.error_code for topic in response.responses for each in topic.partitions]
        for code in [response.error_code, *results]:
            self.expect(
                code,
                E.NONE,
                E.NO_REASSIGNMENT_IN_PROGRESS,
                E.INVALID_REPLICA_ASSIGNMENT,
                RETRIABLE,
                doing="AlterPartitionReassignments",
            )
        self.kernel.count("reassignments", results.count(E.NONE))
