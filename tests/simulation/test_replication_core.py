"""Seeds of the replication core's own simulation; `python -m ottla.testing.cores` runs many more."""

from __future__ import annotations

import pytest

from ottla.testing.cores.replication import ReplicationSimulation


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_invariants_of_replication_hold(seed: int) -> None:
    summary = ReplicationSimulation(seed).run()
    assert summary.acknowledged > 0
    assert summary.elections > 1


def test_a_seed_repeats_its_run() -> None:
    first, second = ReplicationSimulation(5).run(), ReplicationSimulation(5).run()
    assert first == second
