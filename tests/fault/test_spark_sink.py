"""Drivers, workers and brokers killed under a query that writes exactly once: nothing is lost, nothing is there twice.

The query copies lines of files to a topic in a Spark driver of its own process. In the end the topic, read with
read_committed, has every line once and no transaction is open.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeBroker
from tests.support.dying_sink import STEPS
from tests.support.sink_queries import LINES
from tests.support.sink_run import TIMEOUT_S, Run
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("OTTLA_SPARK_KILLS", "100"))

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")


@pytest.fixture
def run(tmp_path: Path, make_broker: MakeBroker, request: pytest.FixtureRequest) -> Any:
    overrides = {"transaction.two.phase.commit.enable": "true"} if request.param else {}
    made = Run(tmp_path, make_broker(overrides))
    yield made
    made.kill_driver()


@pytest.mark.slow
@pytest.mark.parametrize("run", [True], indirect=True, ids=["two-phase"])
def test_a_driver_a_worker_and_a_broker_are_killed(run: Run) -> None:
    run.lines.add()
    run.start_driver()
    run.wait_for_files(1)
    assert run.kill_workers() > 0
    run.lines.add()
    run.wait_for_files(2)
    run.kill_broker()
    (run.orders / "driver-4").touch()
    run.lines.add()
    wait_until(run.driver_is_dead, "the driver to die in the middle of its commit", TIMEOUT_S)
    run.lines.add()
    run.start_driver()
    run.finish()


@pytest.mark.torture
@pytest.mark.parametrize("run", [True, False], indirect=True, ids=["two-phase", "one-phase"])
def test_a_driver_killed_at_every_step_of_its_commit(run: Run) -> None:
    for step in range(STEPS):
        (run.orders / f"driver-{step}").touch()
        run.lines.add()
        run.start_driver()
        wait_until(
            lambda: run.driver_is_dead() or run.files_done() == len(run.lines.written) // LINES,
            f"the driver to die at step {step}",
            TIMEOUT_S,
        )
        if not run.driver_is_dead():
            assert step >= 8, "a commit of three transactions has more steps than that"
            break
    run.finish()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("run", [True, False], indirect=True, ids=["two-phase", "one-phase"])
def test_a_hundred_kills_at_random_moments(run: Run, seed: int) -> None:
    dice = random.Random(seed)
    run.start_driver()
    for number in range(KILLS // 4):
        goal = run.files_done() + dice.randint(0, 3)
        for _ in range(dice.randint(2, 5)):
            run.lines.add()
        run.wait_for_files(min(goal, len(run.lines.written) // LINES))
        if dice.random() < 0.3:
            (run.orders / f"driver-{dice.randrange(STEPS)}").touch()
        kill = dice.choice([run.kill_driver, run.kill_workers, run.kill_broker])
        kill()
        if run.driver_is_dead():
            run.start_driver()
        if number % 5 == 4:
            for order in run.orders.iterdir():
                order.unlink(missing_ok=True)
    run.lines.add()
    run.finish()
