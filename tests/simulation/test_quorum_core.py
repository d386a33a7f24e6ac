"""Seeds of the quorum core's own simulation; `python -m ottla.testing.cores` runs many more."""

from __future__ import annotations

import pytest

from ottla.testing.cores.quorum import QuorumSimulation


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_invariants_of_the_quorum_hold(seed: int) -> None:
    summary = QuorumSimulation(seed).run()
    assert summary.committed > 0


def test_a_seed_repeats_its_run() -> None:
    first, second = QuorumSimulation(5).run(), QuorumSimulation(5).run()
    assert first == second
