"""Seeds of the quorum core's own simulation; `python -m ottla.testing.cores` runs many more."""

from __future__ import annotations

import pytest

from ottla.testing.cores.quorum import QuorumSimulation
from ottla.testing.cores.voters import VotersSimulation


@pytest.mark.parametrize("seed", [*range(1, 9), 47])
def test_the_invariants_of_the_quorum_hold(seed: int) -> None:
    summary = QuorumSimulation(seed).run()
    assert summary.committed > 0


@pytest.mark.parametrize("simulation", [QuorumSimulation, VotersSimulation])
def test_a_seed_repeats_its_run(simulation: type[QuorumSimulation]) -> None:
    first, second = simulation(5).run(), simulation(5).run()
    assert first == second


@pytest.mark.parametrize("seed", range(1, 7))
def test_the_invariants_of_the_quorum_hold_while_voters_change(seed: int) -> None:
    summary = VotersSimulation(seed).run()
    assert summary.committed > 0
    assert summary.changes > 0
