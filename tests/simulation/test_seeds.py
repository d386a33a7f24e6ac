"""Seeded runs of the broker with simulated clients: no invariant is violated, and all kinds of faults occur.

`make sim SEEDS=1000` runs more seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
import typer

from ottla.testing.sim.command import simulate
from ottla.testing.sim.kernel.pace import EVEN
from ottla.testing.sim.run import Result, Run

FAULT_MS = 8_000
SEEDS = range(1, 25)
CLUSTER_FAULT_MS = 5_000
CLUSTER_SEEDS = range(1, 9)
LONG_FAULT_MS = 25_000


def run(seed: int, fault_ms: int = FAULT_MS) -> Result:
    return Run(seed, fault_ms=fault_ms).finish()


def test_no_seed_violates_an_invariant_and_all_faults_occur() -> None:
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
        "lossy links",
        "slow links",
        "transactions aborted",
        "transactions committed",
        "transactions of copiers",
        "transactions prepared",
        "zombies",
    }
    assert expected - set(happened) == set()


def test_no_seed_of_a_cluster_violates_an_invariant_and_leaders_are_elected() -> None:
    results = [Run(seed, fault_ms=CLUSTER_FAULT_MS, brokers=3).finish() for seed in CLUSTER_SEEDS]

    failed = {result.seed: str(result.violation) for result in results if result.violation}
    assert failed == {}
    happened: Counter[str] = Counter()
    for result in results:
        happened.update(result.counts)
    assert happened["quorum elections"] > len(results)
    assert happened["partition elections"] > 10 * len(results)
    assert happened["records acknowledged"] > 0


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(9004, id="a replaced coordinator that never finished loading kept members alive"),
        pytest.param(
            9011, id="recovery cut compacted logs because it did not know the settings of their topics"
        ),
    ],
)
def test_a_seed_that_violated_an_invariant_does_not_any_more(seed: int) -> None:
    assert Run(seed, fault_ms=LONG_FAULT_MS, pace=EVEN).finish().violation is None


@pytest.mark.parametrize(
    ("fault", "nodes", "message"),
    [("kil leader", 3, "unknown: kil leader"), ("kill leader", 0, "only with several brokers")],
)
def test_a_fault_that_cannot_be_injected_is_refused(fault: str, nodes: int, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        simulate(seeds=1, nodes=nodes, fault=[fault])


def test_a_pace_that_does_not_exist_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="unknown pace: slow; known: even, busy"):
        simulate(seeds=1, pace="slow")


def test_a_seed_of_a_cluster_is_reproducible() -> None:
    """The digest is the same in another process, with another order of sets and another memory layout."""
    code = "from ottla.testing.sim.run import Run; print(Run(3, fault_ms=3000, brokers=None).finish().digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("0", "4711")
    }

    assert len(digests) == 1


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_a_seed_is_reproducible(hash_seed: str) -> None:
    """The digest is the same in another process, with another order of sets and another memory layout."""
    code = f"from ottla.testing.sim.run import Run; print(Run(7, fault_ms={FAULT_MS}).finish().digest)"
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert other.stdout.strip() == run(7).digest


def test_two_seeds_give_different_runs() -> None:
    assert run(1, 1000).digest != run(2, 1000).digest
