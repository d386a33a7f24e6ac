"""Who is on stage: starts clients, starts them again after they died, and lets some live twice.

Each client has a name and one life after another. A zombie is an old life that goes on beside a new one.
"""

from __future__ import annotations

from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.clients.two_phase import Finisher, Preparer
from ottla.testing.sim.cluster import Cluster


class ClientSet:
    name = "cast"
    alive = True
    paused_until_us = 0

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._rng = cluster.kernel.stream("cast")
        self.clients: dict[str, Client] = {}
        self.zombies: list[Client] = []
        self._restarting: set[str] = set()
        """Those of whom a next life is on its way."""

    def start(self, client: Client) -> None:
        self.clients[client.client_id] = client
        client.start()

    def kill(self, client_id: str) -> None:
        """A client's process dies; it comes back, as a new process, after a while."""
        if client_id in self._restarting:
            return
        self._kernel.count("clients killed")
        self.clients[client_id].kill()
        self._return_after(self._rng.uniform(200, 4000), client_id)

    def make_zombie(self, client_id: str, pause_ms: float) -> None:
        """A client is held up, taken for dead and replaced; then it goes on."""
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
            # Two under one instance id, which may take it from each other: whoever sets that up gets what he asks for.
            self._cluster.ownership.drop(old.group, old.name, list(old.positions))
            old.claims_disabled = True
        self._return_after(1, client_id)

    def restart_finished(self) -> None:
        """Called now and then: whoever came to an end before the run does gets a next life."""
        for client_id, client in list(self.clients.items()):
            if not client.process.done or client_id in self._restarting or self._cluster.ending:
                continue
            if isinstance(client, Preparer) and client.prepared is not None:
                self.start(Finisher(self._cluster, f"end-{client.name}", left=client))
                self._return_when_ended(f"end-{client.name}", client_id)
            elif not isinstance(client, Finisher):
                self._return_after(self._rng.uniform(100, 2000), client_id)

    def end_faults(self) -> None:
        """The faults are over: zombies end, everybody who reads or copies is here to stay."""
        for zombie in self.zombies:
            zombie.kill()
        self.zombies.clear()
        for client_id, client in list(self.clients.items()):
            client.process.loop.paused_until_us = 0
            if isinstance(client, Member):
                client.leaves_at_ms = None
            if (
                isinstance(client, Member | Reader)
                and client.process.done
                and client_id not in self._restarting
            ):
                self._return_after(1, client_id)

    def shut_down(self) -> None:
        """The run is over."""
        for client in (*self.clients.values(), *self.zombies):
            client.process.loop.kill()

    def _return_after(self, delay_ms: float, client_id: str) -> None:
        self._restarting.add(client_id)

        def restart() -> None:
            self._restarting.discard(client_id)
            self.start(self.clients[client_id].next_incarnation())

        self._kernel.after_ms(delay_ms, self, restart)

    def _return_when_ended(self, other: str, client_id: str) -> None:
        self._restarting.add(client_id)

        def check() -> None:
            if self.clients[other].process.done:
                del self.clients[other]
                self._restarting.discard(client_id)
                if not self._cluster.ending:
                    self.start(self.clients[client_id].next_incarnation())
            else:
                self._kernel.after_ms(200, self, check)

        check()
