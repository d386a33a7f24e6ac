"""Seeds of the replication core's own simulation; `python -m ottla.testing.cores` runs many more."""

from __future__ import annotations

import pytest

from ottla.testing.cores.replication import ReplicationSimulation


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_invariants_of_replication_hold(seed: int) -> None:
    summary = ReplicationSimulation(seed).run()
    assert summary.acknowledged > 0
    assert summary.elections > 1


def test_a_late_response_does_not_remove_what_was_appended_since() -> None:
    """Seed 5108: a follower applied a response to a request that it had sent before a truncation."""
    assert ReplicationSimulation(5108).run().acknowledged > 0


def test_a_restarted_replica_may_lack_records_that_were_not_synced() -> None:
    """Seed 5004, with Kafka's flush policy: the leader counts it until its registration is applied."""
    assert ReplicationSimulation(5004).run().acknowledged > 0


def test_a_seed_repeats_its_run() -> None:
    first, second = ReplicationSimulation(5).run(), ReplicationSimulation(5).run()
    assert first == second
