"""Faults that lose records of one node: nothing that is committed is lost, and nothing damaged is copied."""

from __future__ import annotations

import pytest

from ottla.testing.sim.run import Run
from tests.simulation.test_cluster_scenarios import Three


@pytest.mark.parametrize(
    ("kind", "counted", "seed"),
    [("replace disk", "disks replaced", 4), ("fail directory", "directories replaced", 5)],
)
def test_no_seed_violates_an_invariant(kind: str, counted: str, seed: int) -> None:
    result = Run(seed, fault_ms=4000, brokers=3, only=[kind]).finish()

    assert result.violation is None, str(result.violation)
    assert result.counts[counted] > 0


def test_a_damaged_batch_is_not_copied() -> None:
    """The leader has a damaged batch. A follower with a new disk gets all records when the leader is replaced, too."""
    three = Three()
    three.write(20)
    leader = three.nodes[1]
    leader.disk.corrupt(f"/data/t-0/{0:020d}.log", 65)
    leader.damaged = True
    three.replace_disk(3)
    three.until(lambda: 3 not in three.partition.isr)
    three.until(lambda: three.nodes[3].ready)
    three.simulation.run_ms(2000)
    assert 3 not in three.partition.isr

    three.replace_disk(1)
    three.until(lambda: set(three.partition.isr) == {1, 2, 3})
