"""Cluster under test: its nodes and topics, the hosts of its clients, and the checkers that verify it.

A simulation may contain several clusters. Each has its own hosts, network conditions, random streams and checkers, so
that what happens in one does not influence another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.replication.partition import Partition
from ottla.testing.sim.checkers.durability import DurabilityChecker
from ottla.testing.sim.checkers.groups import GroupChecker
from ottla.testing.sim.checkers.logs import Listener, LogChecker
from ottla.testing.sim.checkers.metadata import MetadataChecker
from ottla.testing.sim.checkers.offsets import OffsetChecker, Slot
from ottla.testing.sim.checkers.ownership import OwnershipChecker
from ottla.testing.sim.checkers.transaction_states import TransactionStateChecker
from ottla.testing.sim.checkers.transactions import TransactionChecker
from ottla.testing.sim.kernel.events import Kernel, Owner, Trace
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.links import Conditions
from ottla.testing.sim.kernel.network import Network
from ottla.testing.sim.kernel.pace import EVEN, PACES, Pace
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.topology import ONE_NODE, NodeSpec, properties

OFFSETS_TOPIC: Final = "__consumer_offsets"
TXN_TOPIC: Final = "__transaction_state"
_UNEVEN_CHANCE: Final = 0.5


class Cluster:
    """One cluster. `name` precedes the names of its hosts; it is empty if the simulation has one cluster."""

    def __init__(
        self,
        network: Network,
        name: str,
        settings: Mapping[str, str],
        specs: Sequence[NodeSpec] = ONE_NODE,
    ) -> None:
        self.kernel: Kernel = network.kernel
        self.network = network
        self.name = name
        self._prefix = f"{name}-" if name else ""
        self.conditions = Conditions()
        self.hosts: dict[str, Host] = {}
        scenario = f"{self._prefix}scenario"
        self.owner = Owner(scenario, self.kernel.trace(scenario))
        """Owner of the events of the scenario: starts of clients, faults."""
        self.ownership = OwnershipChecker(self.kernel)
        self.groups = GroupChecker(self.kernel)
        self.txns = TransactionChecker(self.kernel)
        self.offsets = OffsetChecker(self.kernel, self.txns, self.groups)
        self.txn_states = TransactionStateChecker(self.kernel)
        self.logs = LogChecker(self.kernel, self._listener_of)
        self.topics: dict[str, int] = {}
        """Number of partitions by topic."""
        self.topic_ids: dict[str, Uuid] = {}
        self.topic_settings: dict[str, str] = {}
        self.transaction_version = 2
        self.ending = False
        """Set when the faults are over: producers finish, and no client is restarted."""
        self.min_isr = int(settings.get("min.insync.replicas", "1"))
        self.durability = DurabilityChecker(self.kernel)
        self.logs.on_committed = self.durability.committed
        self.metadata = MetadataChecker(self.kernel)
        self.durability.newest = lambda: self.metadata.newest
        self.metadata.on_partition = self.durability.isr_changed
        self.metadata.on_joined = self._joined
        self.durability.committed_isr = self.metadata.committed_isr
        host_of = {spec.node_id: self.host(f"node{spec.node_id}").name for spec in specs}
        self.nodes = [
            self._add_node(spec, {**properties(spec, specs, host_of), **settings}) for spec in specs
        ]
        self.logs.is_in_sync = self._is_in_sync
        self.logs.is_damaged = lambda node_id: any(
            node.damaged for node in self.nodes if node.node_id == node_id
        )
        self.bootstrap = [node.address for node in self.nodes if node.spec.is_broker]
        """The brokers that clients connect to first."""

    # Hosts

    def set_paces(self, pace: Pace | None) -> None:
        """Set the pace of all nodes; None: the seed chooses, for half of the runs one for each node."""
        rng = self.stream("paces")
        uneven = rng.random() < _UNEVEN_CHANCE
        for node in self.nodes:
            node.host.pace = pace or (rng.choice(PACES) if uneven else EVEN)
            self.kernel.note(node.host.name, f"pace {node.host.pace.name}")

    def _add_node(self, spec: NodeSpec, settings: Mapping[str, str]) -> SimNode:
        node = SimNode(self.network, self.host(f"node{spec.node_id}"), spec, settings)
        node.after_event = self._checker_of(node)
        node.on_start = lambda: self.metadata.started(spec.node_id)
        node.on_disk_lost = partial(self._disk_lost, node)
        self.durability.nodes[spec.node_id] = node
        return node

    def _disk_lost(self, node: SimNode, directory: str) -> None:
        """The disk of a node, or the device of one directory, was replaced: what it stored does not count any more."""
        if directory in ("", node.spec.log_dirs[0]):
            self.metadata.forgot(node.node_id)
        self.durability.lost(node.node_id, self.metadata.newest)

    @property
    def node(self) -> SimNode:
        """The first node."""
        return self.nodes[0]

    @property
    def brokers(self) -> list[SimNode]:
        return [node for node in self.nodes if node.spec.is_broker]

    @property
    def replication_factor(self) -> int:
        """The replication factor of the topics."""
        return min(3, len(self.brokers))

    def host(self, name: str) -> Host:
        """The host of that name in this cluster; it is created if needed."""
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = self.network.add_host(f"{self._prefix}{name}", self.conditions)
        return found

    def stream(self, purpose: str) -> Random:
        """Random numbers for one purpose in this cluster."""
        return self.kernel.stream(f"{self._prefix}{purpose}")

    @property
    def traces(self) -> list[Trace]:
        return [self.owner.trace, *(host.trace for host in self.hosts.values())]

    @property
    def counts(self) -> Counter[str]:
        """How often each thing has happened in this cluster."""
        total: Counter[str] = Counter()
        for trace in self.traces:
            total.update(trace.counts)
        return total

    @property
    def digests(self) -> dict[str, str]:
        """Digests of everything that happened on the hosts of this cluster."""
        return {trace.name: trace.digest for trace in self.traces}

    def shut_down(self) -> None:
        """End of the run: nothing in this cluster has an effect any more."""
        self.owner.alive = False
        for host in self.hosts.values():
            host.shut_down()

    def _is_in_sync(self, node_id: int, partition: Partition) -> bool:
        newest = self.metadata.newest
        topic = newest.topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        if known is None or self.durability.is_lost(node_id, partition.log.topic_partition):
            return False
        # An eligible replica is not elected, and may be copied anew, if its directory is not registered.
        broker = newest.brokers.get(node_id)
        is_online = known.is_online(node_id, () if broker is None else broker.log_dirs)
        return node_id in known.isr or (is_online and node_id in known.eligible_leader_replicas)

    def _joined(self, node_id: int, topic_id: Uuid, index: int) -> None:
        """A replica has joined an ISR. If its node is down, its log is checked when it is opened."""
        for node in self.nodes:
            if node.node_id == node_id:
                for partition in node.partitions:
                    if partition.topic_id == topic_id and partition.index == index:
                        self.logs.joined(node_id, partition)

    # Topics

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for index in range(self.topics[topic])]

    @property
    def replicas(self) -> Iterator[Partition]:
        """The replicas on all nodes that serve requests."""
        return (partition for node in self.nodes for partition in node.partitions)

    def log_ends(self) -> dict[TopicPartition, int]:
        """Current log end offsets, including records that are not durable yet; the greatest of all replicas."""
        found: dict[TopicPartition, int] = {}
        for replica in self.replicas:
            tp = replica.log.topic_partition
            found[tp] = max(found.get(tp, 0), replica.log.log_end_offset)
        return found

    # Checks

    def processed_by(self, group: str, tp: TopicPartition, start: int, end: int) -> None:
        """Record that a member has processed the offsets from `start` to before `end`."""
        slot = Slot(group, tp)
        done = self.offsets.processed.get(slot, 0)
        self.kernel.check(
            start <= done, "G6 a group skips no record", f"{slot}: continues at {start}, was at {done}"
        )
        self.offsets.processed[slot] = max(done, end)

    def _checker_of(self, node: SimNode) -> Callable[[], None]:
        check, node_id, metadata = self.logs.check, node.node_id, self.metadata

        def check_all() -> None:
            if node.quorum is not None:
                metadata.check_quorum(node_id, node.quorum)
            if node.image is not None:
                metadata.check_image(node_id, node.image)
            for partition in node.partitions:
                check(node_id, partition)

        return check_all

    def _listener_of(self, topic: str) -> Listener:
        if topic == OFFSETS_TOPIC:
            return self.offsets
        return self.txn_states if topic == TXN_TOPIC else self.txns
