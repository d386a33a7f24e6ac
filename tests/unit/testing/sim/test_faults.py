"""Tests of fault injection: limits of single faults, and the end of all faults."""

from __future__ import annotations

import pytest

from ottla.testing.sim.clients.readers import Reader
from ottla.testing.sim.kernel.events import START_MS
from ottla.testing.sim.run import Simulation
from ottla.testing.sim.scenario import Scenario

MESSAGE_TIMESTAMP_AFTER_MAX_MS = 3_600_000


@pytest.fixture
def scenario() -> Scenario:
    """A scenario with one client and a node that serves requests."""
    simulation = Simulation(1)
    scenario = Scenario(simulation.add_cluster(), 1000)
    cluster = scenario.cluster
    cluster.topics = {"t": 1}
    cluster.node.start()
    scenario.clients.start(Reader(cluster, "reader", committed=True))
    simulation.run(lambda: cluster.node.ready)
    assert simulation.kernel.violation is None
    return scenario


def test_clock_jumps_never_make_timestamps_of_clients_too_new(scenario: Scenario) -> None:
    faults, clock = scenario.faults, scenario.cluster.node.host.clock
    assert faults is not None
    seen = set()
    for _ in range(2000):
        faults.do_clock_jump()
        seen.add(clock.offset_ms)
        assert START_MS - clock.offset_ms < MESSAGE_TIMESTAMP_AFTER_MAX_MS

    assert min(seen) < START_MS < max(seen)


def test_all_kinds_of_faults_can_be_injected_and_end(scenario: Scenario) -> None:
    faults, cluster = scenario.faults, scenario.cluster
    assert faults is not None
    faults.start()
    for kind in faults.kinds():
        getattr(faults, "do_" + kind.replace(" ", "_"))()
    faults.stop()

    there, back = cluster.network.links_between(cluster.host("reader"), cluster.node.host)
    for link in (there, back):
        assert link.conditions is cluster.conditions
        assert not link.is_cut
    assert cluster.conditions.reset_chance == cluster.conditions.late_chance == 0
    assert cluster.node.host.slow_chance == 0
    assert cluster.node.running
