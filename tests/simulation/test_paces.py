"""A cluster under faults violates no invariant at any pace of its nodes."""

from __future__ import annotations

import pytest

from ottla.testing.sim.kernel.pace import EVEN, PACES, Pace
from ottla.testing.sim.run import Run, Simulation

SEED = 41


@pytest.mark.parametrize("pace", PACES, ids=[pace.name for pace in PACES])
def test_a_cluster_violates_no_invariant(pace: Pace) -> None:
    result = Run(SEED, fault_ms=3000, brokers=3, pace=pace).finish()
    assert result.violation is None
    assert result.counts["records acknowledged"] > 0


def test_seeds_choose_even_runs_and_different_paces() -> None:
    chosen = [
        {node.host.pace.name for node in Simulation(seed).add_cluster(brokers=3, pace=None).nodes}
        for seed in range(40)
    ]
    assert 10 < chosen.count({EVEN.name}) < 30
    assert set().union(*chosen) == {pace.name for pace in PACES}
