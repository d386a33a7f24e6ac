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


def test_a_voter_with_a_new_disk_does_not_vote_before_it_has_what_the_leader_has_committed() -> None:
    """It voted with the first records of the leader's epoch, and the only other voter with the rest was replaced."""
    QuorumSimulation(47).run()
