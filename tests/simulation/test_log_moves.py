"""Replicas that are moved between the log directories of their brokers during faults."""

from __future__ import annotations

from ottla.testing.sim.run import Run

SEED = 5
"""A seed whose brokers have two log directories, and whose clients include one that moves replicas."""


def test_no_invariant_is_violated_while_replicas_are_moved() -> None:
    result = Run(SEED, fault_ms=3000, brokers=3).finish()

    assert result.violation is None, str(result.violation)
    assert result.counts["moves between directories"] > 0
