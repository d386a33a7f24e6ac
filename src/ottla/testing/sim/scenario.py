"""Standard scenario of one cluster: topics, clients, a phase with faults, and a phase without.

In the first phase all clients work while faults are injected. Then the faults end, producers finish, and the cluster
must converge (`convergence`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.testing.sim.checkers.replay import compare
from ottla.testing.sim.clients.admin import Admin
from ottla.testing.sim.clients.classic_member import ClassicMember
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.client_set import ClientSet
from ottla.testing.sim.clients.consumer_member import ConsumerMember
from ottla.testing.sim.clients.copier import OUT_TOPIC, ClassicCopier, ConsumerCopier
from ottla.testing.sim.clients.log_mover import LogMover
from ottla.testing.sim.clients.offset_client import OffsetClient
from ottla.testing.sim.clients.producers import Source, TxnProducer
from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.clients.reassigner import Reassigner
from ottla.testing.sim.clients.topic_cycler import TopicCycler
from ottla.testing.sim.clients.two_phase import Preparer
from ottla.testing.sim.cluster import Cluster
from ottla.testing.sim.convergence import TWO_PHASE_CLIENT, Convergence
from ottla.testing.sim.disk_faults import DiskFaults
from ottla.testing.sim.disk_losses import DiskLosses

CONVERGENCE_MS_MAX: Final = 120_000
_RESTART_INTERVAL_MS: Final = 100
_COMPARE_INTERVAL_MS: Final = 1700


class Scenario:
    """Runs on one cluster from `start` until it calls `on_done`."""

    def __init__(
        self, cluster: Cluster, fault_ms: int, *, faults: bool = True, only: Sequence[str] = ()
    ) -> None:
        self.cluster = cluster
        self.clients = ClientSet(cluster)
        kind = DiskLosses if len(cluster.nodes) > 1 else DiskFaults
        self.faults = kind(cluster, self.clients, only) if faults else None
        self.on_done: Callable[[], None] = lambda: None
        """Called when the cluster has converged."""
        self._kernel = cluster.kernel
        self._rng = cluster.stream("scenario")
        self._fault_ms = fault_ms
        self._converge_until_ms = 0
        self._convergence = Convergence(cluster, self.clients)

    def start(self) -> None:
        """Start the nodes, and create the topics."""
        cluster, rng = self.cluster, self._rng
        for node in cluster.nodes:
            node.start()
        cluster.topics = {"in": rng.randrange(1, 5), "txn": rng.randrange(2, 4)}
        cluster.topics[OUT_TOPIC] = cluster.topics["in"]
        chosen = self.faults.chosen if self.faults is not None else "none"
        self._kernel.note(cluster.owner.name, f"topics {cluster.topics}, faults {chosen}")
        if rng.random() < 0.3:
            cluster.transaction_version = rng.choice((0, 1))
        admin = Admin(cluster, "admin")
        admin.when_ready = self._start_clients
        admin.start()

    def _start_clients(self) -> None:
        cluster, owner, rng = self.cluster, self.cluster.owner, self._rng
        cluster.groups.topic_names = {topic_id: name for name, topic_id in cluster.topic_ids.items()}
        clients: list[Client] = [Source(cluster, "source")]
        clients += [TxnProducer(cluster, f"txn-{n}") for n in range(rng.randrange(1, 4))]
        clients += [
            ClassicMember(cluster, f"old-{n}", group="classic", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        clients += [
            ConsumerMember(cluster, f"new-{n}", group="consumer", topics=("in", "txn"))
            for n in range(rng.randrange(0, 4))
        ]
        if rng.random() < 0.4:
            # A group that changes from one protocol to the other and back, as its members are restarted.
            kinds = (ClassicMember, ConsumerMember)
            clients += [
                rng.choice(kinds)(cluster, f"mix-{n}", group="mixed", topics=("in",))
                for n in range(rng.randrange(2, 4))
            ]
        if rng.random() < 0.5:
            clients.append(OffsetClient(cluster, "simple"))
        copier = rng.choice((ClassicCopier, ConsumerCopier))
        clients += [
            copier(cluster, f"copy-{n}", group="copiers", topics=("in",)) for n in range(rng.randrange(0, 3))
        ]
        if rng.random() < 0.5:
            clients.append(Preparer(cluster, TWO_PHASE_CLIENT))
        if rng.random() < 0.4:
            clients.append(TopicCycler(cluster, "cycler"))
        if len(cluster.brokers) > 1 and rng.random() < 0.4:
            clients.append(Reassigner(cluster, "reassigner"))
        if cluster.brokers[0].spec.directories > 1 and rng.random() < 0.5:
            clients.append(LogMover(cluster, "mover"))
        clients.append(Reader(cluster, "committed", committed=True))
        clients.append(Reader(cluster, "uncommitted", committed=False))
        for client in clients:
            self.clients.start(client)
        if self.faults is not None:
            self.faults.start()
        self._kernel.after_ms(_RESTART_INTERVAL_MS, owner, self._restart_finished)
        self._kernel.after_ms(_COMPARE_INTERVAL_MS, owner, self._compare)
        self._kernel.after_ms(self._fault_ms, owner, self._end_faults)

    def _restart_finished(self) -> None:
        self.clients.restart_finished()
        if not self._converge_until_ms:
            self._kernel.after_ms(_RESTART_INTERVAL_MS, self.cluster.owner, self._restart_finished)

    def _compare(self) -> None:
        """Compare the state of coordinators with their logs."""
        for node in self.cluster.nodes:
            if node.node is not None and node.ready:
                node.disk.inspected = True
                compare(self._kernel, node.node)
                node.disk.inspected = False
        self._kernel.after_ms(_COMPARE_INTERVAL_MS, self.cluster.owner, self._compare)

    # The phase without faults

    def _end_faults(self) -> None:
        self._kernel.note(self.cluster.owner.name, "the faults are over")
        if self.faults is not None:
            self.faults.stop()
        self.cluster.ending = True
        self._lose_producers()
        self._converge_until_ms = self._kernel.now_ms + CONVERGENCE_MS_MAX
        self._await_convergence()

    def _lose_producers(self) -> None:
        """Kill some producers permanently: only timeouts can end their open transactions, if the clock is right."""
        if self.faults is None or "clock jump" in self.faults.chosen:
            return
        for client in self.clients.clients.values():
            if isinstance(client, TxnProducer) and not client.process.done and self._rng.random() < 0.5:
                self._kernel.count("producers lost")
                client.kill()
                self._convergence.lost.append(client)

    def _await_convergence(self) -> None:
        self.clients.end_faults()
        unfinished = self._convergence.unfinished()
        if unfinished is None:
            self._convergence.check()
            self.on_done()
        elif self._kernel.now_ms > self._converge_until_ms:
            self._kernel.violated("G5 T5 the cluster converges after the faults", unfinished)
        else:
            self._kernel.after_ms(500, self.cluster.owner, self._await_convergence)
