"""Who is on stage: starts clients, starts them again after they died, and lets some live twice.

Each client has a name and one life after another. A zombie is an old life that goes on beside a new one.
"""

from __future__ import annotations

from ottla.testing.sim.actors.actor import Actor
from ottla.testing.sim.actors.member import Member
from ottla.testing.sim.actors.readers import Reader
from ottla.testing.sim.actors.two_phase import Finisher, Preparer
from ottla.testing.sim.world import World


class Cast:
    name = "cast"
    alive = True
    paused_until_us = 0

    def __init__(self, world: World) -> None:
        self._world = world
        self._kernel = world.kernel
        self._rng = world.kernel.stream("cast")
        self.actors: dict[str, Actor] = {}
        self.zombies: list[Actor] = []
        self._awaited: set[str] = set()
        """Those of whom a next life is on its way."""

    def enter(self, actor: Actor) -> None:
        self.actors[actor.who] = actor
        actor.start()

    def kill(self, who: str) -> None:
        """A client's process dies; it comes back, as a new process, after a while."""
        if who in self._awaited:
            return
        self._kernel.count("clients killed")
        self.actors[who].kill()
        self._return_after(self._rng.uniform(200, 4000), who)

    def double(self, who: str, pause_ms: float) -> None:
        """A client is held up, taken for dead and replaced; then it goes on."""
        if who in self._awaited:
            return
        old = self.actors[who]
        if old.process.done:
            return
        self._kernel.count("zombies")
        self._kernel.note(old.name, f"becomes a zombie for {pause_ms:.0f} ms")
        old.process.loop.pause(pause_ms)
        self.zombies.append(old)
        if isinstance(old, Member) and old.instance_id is not None:
            # Two under one instance id, which may take it from each other: whoever sets that up gets what he asks for.
            self._world.claims.drop(old.group, old.name, list(old.positions))
            old.claims_nothing = True
        self._return_after(1, who)

    def tend(self) -> None:
        """Called now and then: whoever came to an end before the run does gets a next life."""
        for who, actor in list(self.actors.items()):
            if not actor.process.done or who in self._awaited or self._world.closing:
                continue
            if isinstance(actor, Preparer) and actor.prepared is not None:
                self.enter(Finisher(self._world, f"end-{actor.name}", left=actor))
                self._return_when_ended(f"end-{actor.name}", who)
            elif not isinstance(actor, Finisher):
                self._return_after(self._rng.uniform(100, 2000), who)

    def everybody_lives(self) -> None:
        """The faults are over: zombies end, everybody who reads or copies is here to stay."""
        for zombie in self.zombies:
            zombie.kill()
        self.zombies.clear()
        for who, actor in list(self.actors.items()):
            actor.process.loop.paused_until_us = 0
            if isinstance(actor, Member):
                actor.lives_until_ms = None
            if isinstance(actor, Member | Reader) and actor.process.done and who not in self._awaited:
                self._return_after(1, who)

    def strike(self) -> None:
        """The run is over."""
        for actor in (*self.actors.values(), *self.zombies):
            actor.process.loop.kill()

    def _return_after(self, delay_ms: float, who: str) -> None:
        self._awaited.add(who)

        def come() -> None:
            self._awaited.discard(who)
            self.enter(self.actors[who].again())

        self._kernel.after_ms(delay_ms, self, come)

    def _return_when_ended(self, other: str, who: str) -> None:
        self._awaited.add(who)

        def look() -> None:
            if self.actors[other].process.done:
                del self.actors[other]
                self._awaited.discard(who)
                if not self._world.closing:
                    self.enter(self.actors[who].again())
            else:
                self._kernel.after_ms(200, self, look)

        look()
