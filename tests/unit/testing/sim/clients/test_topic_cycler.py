"""The client that deletes a topic and creates it again."""

from __future__ import annotations

from ottla.base.ids import Uuid
from ottla.testing.sim.clients.topic_cycler import TopicCycler
from ottla.testing.sim.run import Simulation


class MisledCycler(TopicCycler):
    """A broker with old metadata returns the id of a deleted topic instead of the first one."""

    misled = False

    async def _create(self) -> Uuid:
        if self.misled:
            return await super()._create()
        self.misled = True
        return Uuid(int=5)


def test_a_topic_that_no_broker_knows_is_given_up() -> None:
    simulation = Simulation(1)
    cluster = simulation.add_cluster()
    cluster.node.start()
    MisledCycler(cluster, "cycler").start()

    def created() -> int:
        return simulation.kernel.counts["topics created again"]

    simulation.run(lambda: created() > 0 or simulation.kernel.now_ms > 120_000)
    assert simulation.kernel.violation is None
    assert created() == simulation.kernel.counts["topics deleted early"] == 1
