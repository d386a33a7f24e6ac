"""Snapshots of a running local cluster, taken by a thread: states of processes, metadata, rates.

`ClusterWatch.snapshot` may be read from any thread. Only the thread sends requests; it never signals a process.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping

from ottla.admin.offset_rates import OffsetRates
from ottla.base.clock import Clock, SystemClock
from ottla.base.ids import TopicPartition
from ottla.cli.local.cluster_view import BrokerState, PartitionState, Snapshot
from ottla.local.cluster import LocalCluster, rack_of
from ottla.wire.messages.metadata import MetadataResponse

INTERVAL_S = 0.5


class ClusterWatch:
    """Takes a snapshot every half second until `close`."""

    def __init__(self, cluster: LocalCluster, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._rates = OffsetRates()
        self._seen: set[int] = set()
        """Brokers that have been listed since they were started."""
        self.ended_as: dict[int, str] = {}
        """How a broker was ended by the user."""
        self.snapshot = Snapshot()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def states(self) -> dict[int, str]:
        """The states of the broker processes now, without requests."""
        brokers = self._cluster.brokers.items()
        return {
            node_id: "paused" if each.paused else "running" if each.running else self._ended(node_id)
            for node_id, each in brokers
        }

    def _ended(self, node_id: int) -> str:
        return self.ended_as.get(node_id, "ended")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.snapshot = self.take()
            self._stop.wait(INTERVAL_S)

    def take(self) -> Snapshot:
        """A new snapshot."""
        cluster = self._cluster
        response = cluster.metadata(None)
        listed = set() if response is None else {each.node_id for each in response.brokers}
        partitions = {} if response is None else partitions_of(response)
        rates = self._rates.update(self._ends(partitions, listed), self._clock.monotonic())
        by_leader: dict[int, float] = defaultdict(float)
        for tp, rate in rates.items():
            if tp in partitions:
                by_leader[partitions[tp].leader] += rate
        brokers = tuple(
            BrokerState(
                node_id,
                cluster.address(node_id),
                rack_of(node_id, len(cluster.brokers), cluster.racks),
                self._state(node_id, listed),
                by_leader[node_id],
            )
            for node_id in cluster.brokers
        )
        return Snapshot(brokers, partitions, cluster.controller())

    def _ends(
        self, partitions: Mapping[TopicPartition, PartitionState], listed: set[int]
    ) -> dict[TopicPartition, int]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp, one in partitions.items():
            by_leader[one.leader].append(tp)
        ends: dict[TopicPartition, int] = {}
        for node_id in self._cluster.running:
            if node_id in listed and by_leader[node_id]:
                ends |= self._cluster.ends(node_id, by_leader[node_id])
        return ends

    def _state(self, node_id: int, listed: set[int]) -> str:
        broker = self._cluster.brokers[node_id]
        if not broker.running:
            self._seen.discard(node_id)
            return self._ended(node_id)
        if broker.paused:
            return "paused"
        if node_id in listed:
            self._seen.add(node_id)
            return "running"
        return "fenced" if node_id in self._seen else "starting"


def partitions_of(response: MetadataResponse) -> dict[TopicPartition, PartitionState]:
    """The partitions of a Metadata response, ordered by name."""
    found = {
        TopicPartition(topic.name or "", one.partition_index): PartitionState(
            one.leader_id, tuple(one.replica_nodes), tuple(sorted(one.isr_nodes))
        )
        for topic in response.topics
        for one in topic.partitions
    }
    return dict(sorted(found.items()))
