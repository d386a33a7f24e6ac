"""Tests of simulated group members: what they claim to own."""

from __future__ import annotations

from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.client import Fenced
from ottla.testing.sim.clients.member import Member
from ottla.testing.sim.run import Simulation

PARTITION = TopicPartition("t", 0)


class FencedMember(Member):
    """Takes a partition, and is then fenced."""

    async def run(self) -> None:
        self.take_for_test()
        raise Fenced

    def take_for_test(self) -> None:
        self.own({PARTITION: 5}, self.kernel.now_us, None)


def test_a_fenced_member_owns_nothing() -> None:
    simulation = Simulation(1)
    cluster = simulation.add_cluster()
    member = FencedMember(cluster, "m", group="g", topics=("t",))
    member.start()
    simulation.run(lambda: member.process.done)

    assert simulation.kernel.violation is None
    assert cluster.counts["clients fenced"] == 1
    assert member.positions == {}
    assert cluster.ownership.owners("g", PARTITION) == []


def test_a_killed_member_owns_nothing() -> None:
    simulation = Simulation(1)
    cluster = simulation.add_cluster()
    member = FencedMember(cluster, "m", group="g", topics=("t",))
    member.take_for_test()
    assert cluster.ownership.owners("g", PARTITION) == ["m.0"]
    member.kill()

    assert cluster.ownership.owners("g", PARTITION) == []
