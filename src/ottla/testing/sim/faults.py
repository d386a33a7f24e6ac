"""What goes wrong, and when: each seed picks some kinds of faults and how often they come.

Every kind is a method named `do_<kind>`; `KINDS` is derived from that, so a new fault is a new method.
"""

from __future__ import annotations

import errno

from ottla.testing.disk import Survival
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.clients.copier import ClassicCopier, ConsumerCopier
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.clients.producers import TxnProducer
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.kernel.events import START_MS

_HOUR_MS = 3_600_000
_BACK_MS_MAX = 3_300_000


class Faults:
    name = "faults"
    alive = True
    paused_until_us = 0

    def __init__(self, cluster: Cluster, clients: ClientSet) -> None:
        self._cluster = cluster
        self._clients = clients
        self._kernel = cluster.kernel
        self._rng = cluster.kernel.stream("faults")
        self._over = False
        chosen = [kind for kind in KINDS if self._rng.random() < 0.6]
        self.chosen = chosen or [self._rng.choice(KINDS)]
        self._pause_ms = self._rng.choice((500, 1500, 4000))
        self._restart_due = False

    def start(self) -> None:
        weather = self._cluster.network.weather
        if "late messages" in self.chosen:
            weather.late_chance, weather.late_ms_max = 0.01, self._rng.choice((50, 500, 4000))
        if "cut connections" in self.chosen:
            weather.cut_chance = 0.003
        self._next()

    def stop(self) -> None:
        """No more faults; what is broken is mended."""
        self._over = True
        cluster = self._cluster
        cluster.network.end_faults()
        cluster.node.slow_chance = 0.0
        if cluster.node.workers is not None:
            cluster.node.workers.slow_chance = 0.0
        if cluster.node.loop is not None:
            cluster.node.loop.paused_until_us = 0
        cluster.node.disk.lose_power_in(-1)
        cluster.node.disk.fail_at(-1)
        self._ensure_broker()

    def broker_lost_power(self) -> None:
        """The disk died under the broker: so does the broker, and comes back."""
        survival = self._rng.choice((Survival.SOME, Survival.SOME, Survival.NONE, Survival.ALL))
        self._cluster.node.kill(survival)
        self._restart()

    def _next(self) -> None:
        self._kernel.after_ms(self._rng.uniform(0.2, 2) * self._pause_ms, self, self._act)

    def _act(self) -> None:
        if self._over:
            return
        kind = self._rng.choice(self.chosen)
        self._kernel.note("faults", kind)
        getattr(self, "do_" + kind.replace(" ", "_"))()
        self._next()

    def _restart(self) -> None:
        if not self._restart_due:
            self._restart_due = True
            self._kernel.after_ms(self._rng.uniform(20, 2500), self, self._ensure_broker)

    def _ensure_broker(self) -> None:
        self._restart_due = False
        if not self._cluster.node.running:
            self._cluster.node.start()

    def _client(self) -> str:
        return self._rng.choice(list(self._clients.clients))

    # Kinds of faults

    def do_power_loss(self) -> None:
        """At one of the next changes of the disk."""
        self._cluster.node.disk.lose_power_in(self._rng.randrange(60))

    def do_kill_broker(self) -> None:
        if self._cluster.node.running:
            self._cluster.node.kill(Survival.ALL)
            self._restart()

    def do_stop_broker(self) -> None:
        self._cluster.node.stop(self._restart)

    def do_pause_broker(self) -> None:
        loop = self._cluster.node.loop
        if loop is not None:
            self._kernel.count("broker pauses")
            loop.pause(self._rng.choice((100, 1000, 6000)) * self._rng.random())

    def do_disk_error(self) -> None:
        """A write or sync fails: the directory goes offline, until somebody starts the broker again."""
        self._kernel.count("disk errors")
        code = self._rng.choice((errno.EIO, errno.ENOSPC))
        self._cluster.node.disk.fail_at(self._rng.randrange(40), code)

        def mend() -> None:
            self._cluster.node.disk.fail_at(-1)
            self.do_kill_broker()

        self._kernel.after_ms(self._rng.uniform(500, 3000), self, mend)

    def do_slow_disk(self) -> None:
        node = self._cluster.node
        if node.workers is not None:
            self._kernel.count("slow disks")
            node.workers.slow_chance, node.workers.slow_ms_max = 0.2, self._rng.choice((50, 500))

    def do_clock_jump(self) -> None:
        """The broker's wall clock; seconds mostly, sometimes hours, and back."""
        self._kernel.count("clock jumps")
        size_ms = self._rng.choice((2000, 30_000, _HOUR_MS))
        clock = self._cluster.node.clock
        # Records from more than an hour ahead are refused (message.timestamp.after.max.ms): never that far back.
        moved_ms = clock.offset_ms + int(self._rng.uniform(-1, 1) * size_ms)
        clock.offset_ms = max(moved_ms, START_MS - _BACK_MS_MAX)

    def do_late_messages(self) -> None:
        """Much of what one client sends or gets comes late."""
        self._kernel.count("stalls")
        both = self._rng.random() < 0.5
        to_node = both or self._rng.random() < 0.5
        self._cluster.network.stall(
            self._clients.clients[self._client()].name,
            self._rng.uniform(100, 8000),
            to_node=to_node,
            from_node=both or not to_node,
        )

    def do_cut_connections(self) -> None:
        self._cluster.network.cut(self._clients.clients[self._client()].name)

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
        """Whoever has an identity that the next life takes over: a transactional id, or an instance id."""
        kinds = TxnProducer | ClassicCopier | ConsumerCopier
        candidates = [
            client_id
            for client_id, client in self._clients.clients.items()
            if isinstance(client, kinds) or (isinstance(client, Member) and client.instance_id is not None)
        ]
        if candidates:
            self._clients.make_zombie(self._rng.choice(candidates), self._rng.uniform(100, 9000))


KINDS = [name.removeprefix("do_").replace("_", " ") for name in vars(Faults) if name.startswith("do_")]
