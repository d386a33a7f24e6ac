"""Seeded runs of the whole broker among simulated clients: no invariant may be violated, and faults must happen.

`make sim SEEDS=1000` runs more of them; a seed that ever failed gets a test with a name here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from ottla.testing.sim.run import Result, Run

FAULT_MS = 8_000
SEEDS = range(1, 25)


def run(seed: int, fault_ms: int = FAULT_MS) -> Result:
    return Run(seed, fault_ms=fault_ms).finish()


def test_no_seed_violates_an_invariant_and_everything_happens() -> None:
    results = [run(seed) for seed in SEEDS]

    failed = {result.seed: str(result.violation) for result in results if result.violation}
    assert failed == {}
    happened: Counter[str] = Counter()
    for result in results:
        happened.update(result.counts)
    expected = {
        "broker crashes",
        "broker stops",
        "clients killed",
        "clock jumps",
        "connections reset",
        "disk errors",
        "group epochs",
        "group generations",
        "members left",
        "offset commits",
        "partitions revoked",
        "requests without response",
        "link cuts",
        "transactions aborted",
        "transactions committed",
        "transactions of copiers",
        "transactions prepared",
        "zombies",
    }
    assert expected - set(happened) == set()


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_a_seed_repeats_itself_bit_by_bit(hash_seed: str) -> None:
    """In another process, with another order of sets and another layout of memory."""
    code = f"from ottla.testing.sim.run import Run; print(Run(7, fault_ms={FAULT_MS}).finish().digest)"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert other.stdout.strip() == run(7).digest


def test_another_seed_is_another_run() -> None:
    assert run(1, 1000).digest != run(2, 1000).digest


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(9, id="a fenced static member owns nothing any more"),
        pytest.param(65, id="clocks never jump back beyond message.timestamp.after.max.ms"),
        pytest.param(87, id="nor by several jumps"),
    ],
)
def test_seeds_that_failed_once(seed: int) -> None:
    assert run(seed, 25_000).violation is None
