"""A directory of a node fails: its replicas are copied to another one, and join the ISR only when they are complete."""

from __future__ import annotations

import pytest

from ottla.testing.sim.kernel.links import Link
from ottla.testing.sim.topology import DATA_DIRS
from tests.simulation.test_cluster_scenarios import SEPARATE_CONTROLLER, Three, Writer

FAILED = DATA_DIRS[1]


class Scenario(Three):
    """Node 3 has its replica of `t`, which node 1 leads, in the second of its directories."""

    def __init__(self) -> None:
        # New logs alternate between the directories: the first topic is in the one of the metadata log.
        super().__init__(seed=SEPARATE_CONTROLLER, other_topics=("first",))
        assert self.replica() == (FAILED, 0)
        self.write(20)
        self.until(lambda: self.replica() == (FAILED, 20))

    def replica(self) -> tuple[str, int]:
        """Directory and end of the replica of `t` on node 3; ("", 0) while it has none."""
        found = [
            (each.log.log_dir, each.log.log_end_offset)
            for each in self.nodes[3].partitions
            if each.topic == "t"
        ]
        return found[0] if found else ("", 0)

    @property
    def to_leader(self) -> Link:
        return self.simulation.network.link(self.nodes[3].host, self.nodes[1].host)

    def fail_directory(self) -> None:
        """The directory fails when a log is created in it; nothing is written to `t`."""
        self.nodes[3].disk.failed_dir = FAILED
        self.cluster.topics |= {"u": 1, "v": 1}
        Writer(self.cluster, "creator").start()
        self.until(lambda: self.replica() == (DATA_DIRS[0], 0))


@pytest.fixture
def scenario() -> Scenario:
    return Scenario()


def test_an_empty_log_that_replaces_a_lost_one_does_not_join_the_isr(scenario: Scenario) -> None:
    """The leader knows the offsets of the lost log until it gets a fetch of the new one."""
    scenario.to_leader.cut(2000)
    scenario.fail_directory()
    scenario.simulation.run_ms(1000)
    assert scenario.replica() == (DATA_DIRS[0], 0)
    assert 3 not in scenario.partition.isr

    scenario.until(lambda: set(scenario.partition.isr) == {1, 2, 3})
    assert scenario.replica() == (DATA_DIRS[0], 20)


def test_a_replica_outside_the_isr_is_copied_when_its_directory_fails(scenario: Scenario) -> None:
    """The failure does not change its partition: the replica has left the ISR before."""
    scenario.to_leader.cut(8000)
    scenario.write(5)
    assert 3 not in scenario.partition.isr
    scenario.fail_directory()

    scenario.until(lambda: set(scenario.partition.isr) == {1, 2, 3}, limit_ms=20_000)
    assert scenario.replica() == (DATA_DIRS[0], 25)
