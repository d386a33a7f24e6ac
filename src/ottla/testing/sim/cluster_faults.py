"""Faults of a cluster of several nodes, in addition to those of one node.

Nodes are separated from each other in one direction or in both, alone or in groups; leaders and controllers are killed
or paused; all nodes fail together. `disk_losses` adds faults that lose records of a node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ottla.testing.disk import Survival
from ottla.testing.sim.disk_faults import DiskFaults
from ottla.testing.sim.kernel.host import Host
from ottla.testing.sim.kernel.links import Conditions, Link
from ottla.testing.sim.node import SimNode

_CUT_MS = (300, 2000, 8000)


class ClusterFaults(DiskFaults):
    """Injects faults into a cluster of several nodes."""

    # What faults apply to

    def _pair(self) -> tuple[Host, Host]:
        first, second = self._rng.sample(self._cluster.nodes, 2)
        return first.host, second.host

    def _leader(self) -> SimNode:
        """The leader of some partition, as the newest metadata say; some node if there is none."""
        cluster = self._cluster
        leaders = [
            partition.leader
            for topic in cluster.metadata.newest.topics.by_id.values()
            for partition in topic.partitions.values()
            if partition.leader >= 0
        ]
        chosen = self._rng.choice(leaders) if leaders else self._node().node_id
        return next(node for node in cluster.nodes if node.node_id == chosen)

    def _controller(self) -> SimNode:
        """The leader of the quorum, as some node sees it; some node if there is none."""
        leader_id = self._cluster.metadata.quorum_leader
        found = [node for node in self._cluster.nodes if node.node_id == leader_id]
        return found[0] if found else self._node()

    def _separate(self, links: Iterable[Link], what: str) -> None:
        self._kernel.count(what)
        duration_ms = self._rng.choice(_CUT_MS) * self._rng.uniform(0.5, 1.5)
        for link in links:
            link.cut(duration_ms)

    # Faults of links between nodes

    def do_cut_between_nodes(self) -> None:
        """Two nodes cannot reach each other, or only in one direction."""
        there, back = self._cluster.network.links_between(*self._pair())
        self._separate((there, back) if self._rng.random() < 0.5 else (there,), "cuts between nodes")

    def do_isolate_node(self) -> None:
        """A node cannot reach the other nodes, or they cannot reach it; clients still reach it."""
        network, node = self._cluster.network, self._node()
        others = [each.host for each in self._cluster.nodes if each is not node]
        outgoing = [network.link(node.host, other) for other in others]
        incoming = [network.link(other, node.host) for other in others]
        links = self._rng.choice((outgoing, incoming, outgoing + incoming, outgoing + incoming))
        self._separate(links, "isolated nodes")

    def do_disconnect_node(self) -> None:
        """A node cannot be reached by any other host, and cannot reach any."""
        network, node = self._cluster.network, self._node()
        others = [host for host in self._cluster.hosts.values() if host is not node.host]
        links = [link for other in others for link in network.links_between(node.host, other)]
        self._separate(links, "disconnected nodes")

    def do_split_cluster(self) -> None:
        """The nodes are divided into two groups that cannot reach each other."""
        nodes = list(self._cluster.nodes)
        self._rng.shuffle(nodes)
        size = self._rng.randrange(1, len(nodes))
        pairs = itertools.product(nodes[:size], nodes[size:])
        network = self._cluster.network
        links = [link for one, other in pairs for link in network.links_between(one.host, other.host)]
        self._separate(links, "split clusters")

    def do_bad_link_between_nodes(self) -> None:
        """The links between two nodes are slow, lose packets, delay some or reset connections."""
        self._kernel.count("bad links between nodes")
        rng, conditions = self._rng, Conditions()
        match rng.randrange(4):
            case 0:
                conditions.bytes_per_ms = rng.choice((1, 10))
            case 1:
                conditions.loss_chance = rng.choice((0.05, 0.3))
            case 2:
                conditions.late_chance, conditions.late_ms_max = 0.2, rng.choice((100, 3000))
            case _:
                conditions.reset_chance = 0.05
        self._degrade_links(self._cluster.network.links_between(*self._pair()), conditions)

    def do_reset_between_nodes(self) -> None:
        self._kernel.count("connections reset", self._cluster.network.reset_connections(*self._pair()))

    # Faults of nodes

    def do_kill_leader(self) -> None:
        self._kill(self._leader())

    def do_kill_controller(self) -> None:
        self._kill(self._controller())

    def do_pause_leader(self) -> None:
        self._kernel.count("broker pauses")
        self._rng.choice((self._leader, self._controller))().host.pause(self._rng.uniform(500, 7000))

    def do_stall_loop(self) -> None:
        """The event loop of a node does something else for a short time."""
        self._kernel.count("loop stalls")
        self._node().host.pause(self._rng.uniform(20, 900))

    def do_stop_leader(self) -> None:
        node = self._leader()
        node.stop(lambda: self._restart(node))

    def do_kill_all(self) -> None:
        self._kernel.count("kills of all nodes")
        for node in self._cluster.nodes:
            self._kill(node)

    def do_power_loss_of_all(self) -> None:
        """All nodes lose power together; unsynced writes are lost."""
        self._kernel.count("power failures of all nodes")
        for node in self._cluster.nodes:
            if node.running:
                node.power_off(self._rng.choice((Survival.SOME, Survival.NONE)))
                self._restart(node)
