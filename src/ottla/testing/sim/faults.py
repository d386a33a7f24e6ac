"""Faults of a scenario: each seed chooses some kinds of faults, and how often they are injected.

Every kind is a method named `do_<kind>`: a new fault is a new method. `disk_faults` adds more faults of disks,
`cluster_faults` those of several nodes.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import partial

from ottla.testing.disk import Survival
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.clients.copier import ClassicCopier, ConsumerCopier
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.clients.producers import TxnProducer
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.events import START_MS
from ottla.testing.sim.kernel.links import Conditions, Link
from ottla.testing.sim.node import SimNode

_HOUR_MS = 3_600_000
_BACK_MS_MAX = 3_300_000


class Faults:
    """Injects faults into one cluster until `stop`."""

    def __init__(self, cluster: Cluster, clients: ClientSet, only: Sequence[str] = ()) -> None:
        """`only`: inject only these kinds; by default the seed chooses."""
        self._cluster = cluster
        self._clients = clients
        self._kernel = cluster.kernel
        self._rng = cluster.stream("faults")
        self._over = False
        kinds = self.kinds()
        chosen = list(only) or [kind for kind in kinds if self._rng.random() < 0.6]
        self.chosen = chosen or [self._rng.choice(kinds)]
        self._interval_ms = self._rng.choice((500, 1500, 4000))
        self._restarting: set[SimNode] = set()

    @classmethod
    def kinds(cls) -> list[str]:
        """The names of all kinds of faults."""
        names = [name for each in reversed(cls.__mro__) for name in vars(each)]
        return [name.removeprefix("do_").replace("_", " ") for name in names if name.startswith("do_")]

    def start(self) -> None:
        conditions = self._cluster.conditions
        if "late messages" in self.chosen:
            conditions.late_chance, conditions.late_ms_max = 0.01, self._rng.choice((50, 500, 4000))
        if "reset connections" in self.chosen:
            conditions.reset_chance = 0.003
        for node in self._cluster.nodes:
            node.on_power_lost = partial(self._power_lost, node)
        self._next()

    def stop(self) -> None:
        """Inject no more faults, and repair everything."""
        self._over = True
        cluster = self._cluster
        cluster.conditions.end_faults()
        cluster.network.restore(set(cluster.hosts.values()))
        # Timeouts that began on a clock that was ahead end only when the clocks have caught up with it.
        latest_ms = max(node.host.clock.latest_offset_ms for node in cluster.nodes)
        for node in cluster.nodes:
            host = node.host
            host.clock.jump(latest_ms)
            host.slow_chance = 0.0
            host.resume()
            host.disk.lose_power_in(-1)
            host.disk.fail_at(-1)
            if node.damaged or host.disk.full or host.disk.failed_dir:
                self._repair(node)
            self._ensure_running(node)

    def _next(self) -> None:
        delay_ms = self._rng.uniform(0.2, 2) * self._interval_ms
        self._kernel.after_ms(delay_ms, self._cluster.owner, self._act)

    def _act(self) -> None:
        if self._over:
            return
        kind = self._rng.choice(self.chosen)
        self._kernel.note("faults", kind)
        self._kernel.count("faults")
        getattr(self, "do_" + kind.replace(" ", "_"))()
        self._next()

    # What faults apply to

    def _node(self) -> SimNode:
        nodes = self._cluster.nodes
        return self._rng.choice(nodes) if len(nodes) > 1 else nodes[0]

    def _client(self) -> str:
        return self._rng.choice(list(self._clients.clients))

    def _links(self) -> tuple[Link, Link]:
        """The links between a client and a node: to the node, and back."""
        client = self._clients.clients[self._client()]
        return self._cluster.network.links_between(client.process.host, self._node().host)

    def _power_lost(self, node: SimNode) -> None:
        """The disk of a node has lost power: so does its host, which is switched on again later."""
        node.power_off(self._rng.choice((Survival.SOME, Survival.SOME, Survival.NONE, Survival.ALL)))
        self._restart(node)

    def _restart(self, node: SimNode) -> None:
        if node not in self._restarting:
            self._restarting.add(node)
            delay_ms = self._rng.uniform(20, 2500)
            self._kernel.after_ms(delay_ms, self._cluster.owner, lambda: self._ensure_running(node))

    def _ensure_running(self, node: SimNode) -> None:
        self._restarting.discard(node)
        if not node.running:
            if node.damaged:
                self._replace(node)
            node.start()

    def _replace(self, node: SimNode, directory: str = "") -> None:
        """Replace the disk of a node, or the device of one directory, by an empty one."""
        node.wipe(directory)

    def _repair(self, node: SimNode) -> None:
        """Restart a node with a disk that works: a failed one is replaced."""
        self._restarting.discard(node)
        node.kill()
        disk = node.disk
        if disk.failed_dir:
            self._replace(node, disk.failed_dir)
        disk.full = False
        self._ensure_running(node)

    # Faults of nodes

    def do_power_loss(self) -> None:
        """The power fails at one of the next changes of the disk."""
        self._node().host.disk.lose_power_in(self._rng.randrange(60))

    def do_kill_broker(self) -> None:
        self._kill(self._node())

    def _kill(self, node: SimNode) -> None:
        if node.running:
            node.kill()
            self._restart(node)

    def do_stop_broker(self) -> None:
        node = self._node()
        node.stop(lambda: self._restart(node))

    def do_pause_broker(self) -> None:
        node = self._node()
        if node.running:
            self._kernel.count("broker pauses")
            node.host.pause(self._rng.choice((100, 1000, 6000)) * self._rng.random())

    def do_disk_error(self) -> None:
        """A write or sync fails: the directory is offline until the broker is restarted."""
        self._kernel.count("disk errors")
        node = self._node()
        code = self._rng.choice((errno.EIO, errno.ENOSPC))
        node.host.disk.fail_at(self._rng.randrange(40), code)

        def repair() -> None:
            node.host.disk.fail_at(-1)
            node.kill()  # unless it has ended by itself
            self._restart(node)

        self._kernel.after_ms(self._rng.uniform(500, 3000), self._cluster.owner, repair)

    def do_slow_disk(self) -> None:
        host = self._node().host
        self._kernel.count("slow disks")
        host.slow_chance, host.slow_ms_max = 0.2, self._rng.choice((50, 500))

    def do_clock_jump(self) -> None:
        """The wall clock of a node jumps, forward or back, mostly by seconds and sometimes by hours."""
        self._kernel.count("clock jumps")
        size_ms = self._rng.choice((2000, 30_000, _HOUR_MS))
        clock = self._node().host.clock
        # Records from more than an hour ahead are refused (message.timestamp.after.max.ms): never jump back that far.
        moved_ms = clock.offset_ms + int(self._rng.uniform(-1, 1) * size_ms)
        clock.jump(max(moved_ms, START_MS - _BACK_MS_MAX))

    # Faults of links

    def do_late_messages(self) -> None:
        """The link between a client and a node delivers nothing for a while, in one direction or in both."""
        self._kernel.count("link cuts")
        there, back = self._links()
        both = self._rng.random() < 0.5
        to_node = both or self._rng.random() < 0.5
        duration_ms = self._rng.uniform(100, 8000)
        if to_node:
            there.cut(duration_ms)
        if both or not to_node:
            back.cut(duration_ms)

    def do_reset_connections(self) -> None:
        client = self._clients.clients[self._client()]
        network = self._cluster.network
        self._kernel.count(
            "connections reset", network.reset_connections(client.process.host, self._node().host)
        )

    def do_slow_link(self) -> None:
        conditions = Conditions()
        conditions.bytes_per_ms = self._rng.choice((0.2, 2, 20))
        self._degrade("slow links", conditions)

    def do_lossy_link(self) -> None:
        conditions = Conditions()
        conditions.loss_chance = self._rng.choice((0.05, 0.3))
        self._degrade("lossy links", conditions)

    def _degrade(self, what: str, conditions: Conditions) -> None:
        """Give the links between a client and a node other conditions for a while."""
        self._kernel.count(what)
        self._degrade_links(self._links(), conditions)

    def _degrade_links(self, links: tuple[Link, Link], conditions: Conditions) -> None:
        def restore() -> None:
            for link in links:
                if link.conditions is conditions:
                    link.conditions = self._cluster.conditions

        for link in links:
            link.conditions = conditions
        self._kernel.after_ms(self._rng.uniform(500, 6000), self._cluster.owner, restore)

    # Faults of clients

    def do_kill_client(self) -> None:
        self._clients.kill(self._client())

    def do_pause_client(self) -> None:
        self._kernel.count("client pauses")
        loop = self._clients.clients[self._client()].process.loop
        loop.pause(self._rng.choice((300, 3000, 9000)) * self._rng.random())

    def do_member_leaves(self) -> None:
        members = [client for client in self._clients.clients.values() if isinstance(client, Member)]
        if members:
            self._rng.choice(members).leaves_at_ms = self._kernel.now_ms

    def do_zombie(self) -> None:
        """Pause a client whose identity the next incarnation takes over: a transactional or an instance id."""
        kinds = TxnProducer | ClassicCopier | ConsumerCopier
        candidates = [
            client_id
            for client_id, client in self._clients.clients.items()
            if isinstance(client, kinds) or (isinstance(client, Member) and client.instance_id is not None)
        ]
        if candidates:
            self._clients.make_zombie(self._rng.choice(candidates), self._rng.uniform(100, 9000))
