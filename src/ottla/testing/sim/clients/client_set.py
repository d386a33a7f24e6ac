"""All clients of a cluster: starts them, restarts those that were killed, and creates zombies.

A client has one incarnation after another. A zombie is an old incarnation that continues beside a new one.
"""

from __future__ import annotations

from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.clients.two_phase import Finisher, Preparer
from ottla.testing.sim.cluster import Cluster


class ClientSet:
    """The clients of one cluster, by client id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._rng = cluster.stream("clients")
        self.clients: dict[str, Client] = {}
        self.zombies: list[Client] = []
        self._restarting: set[str] = set()
        """Clients whose next incarnation is scheduled."""

    def start(self, client: Client) -> None:
        self.clients[client.client_id] = client
        client.start()

    def kill(self, client_id: str) -> None:
        """Kill the process of a client, and start a new one after a while."""
        if client_id in self._restarting:
            return
        self._kernel.count("clients killed")
        self.clients[client_id].kill()
        self._restart_after(self._rng.uniform(200, 4000), client_id)

    def make_zombie(self, client_id: str, pause_ms: float) -> None:
        """Pause a client and start its next incarnation; the old one continues after the pause."""
        if client_id in self._restarting:
            return
        old = self.clients[client_id]
        if old.process.done:
            return
        self._kernel.count("zombies")
        self._kernel.note(old.name, f"becomes a zombie for {pause_ms:.0f} ms")
        old.process.loop.pause(pause_ms)
        self.zombies.append(old)
        if isinstance(old, Member) and old.instance_id is not None:
            # Two members with one instance id take it from each other: their claims overlap, as configured.
            self._cluster.ownership.release(old.group, old.name, list(old.positions))
            old.claims_disabled = True
        self._restart_after(1, client_id)

    def restart_finished(self) -> None:
        """Start the next incarnation of each client that has finished; called at intervals."""
        for client_id, client in list(self.clients.items()):
            if not client.process.done or client_id in self._restarting or self._cluster.ending:
                continue
            if isinstance(client, Preparer) and client.prepared is not None:
                self.start(Finisher(self._cluster, f"end-{client.name}", left=client))
                self._restart_when_done(f"end-{client.name}", client_id)
            elif not isinstance(client, Finisher):
                self._restart_after(self._rng.uniform(100, 2000), client_id)

    def end_faults(self) -> None:
        """End zombies and pauses; members and readers run until the end of the scenario."""
        for zombie in self.zombies:
            zombie.kill()
        self.zombies.clear()
        for client_id, client in list(self.clients.items()):
            client.process.loop.paused_until_us = 0
            if isinstance(client, Member):
                client.leaves_at_ms = None
            ended = client.process.done and client_id not in self._restarting
            if isinstance(client, Member | Reader) and ended:
                self._restart_after(1, client_id)

    def _restart_after(self, delay_ms: float, client_id: str) -> None:
        self._restarting.add(client_id)

        def restart() -> None:
            self._restarting.discard(client_id)
            self.start(self.clients[client_id].next_incarnation())

        self._kernel.after_ms(delay_ms, self._cluster.owner, restart)

    def _restart_when_done(self, other: str, client_id: str) -> None:
        self._restarting.add(client_id)

        def check() -> None:
            if self.clients[other].process.done:
                del self.clients[other]
                self._restarting.discard(client_id)
                if not self._cluster.ending:
                    self.start(self.clients[client_id].next_incarnation())
            else:
                self._kernel.after_ms(200, self._cluster.owner, check)

        check()
