"""Drivers, workers and brokers killed under a query that writes exactly once: nothing is lost, nothing is there twice.

The query copies lines of files to a topic in a Spark driver of its own process. In the end the topic, read with
read_committed, has every line once and no transaction is open.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeBroker
from tests.spark.conftest import TUNED
from tests.support.clients import create_topic, fresh
from tests.support.dying_sink import STEPS
from tests.support.sink_driver import Settings
from tests.support.sink_queries import LINES, Lines, committed_values, open_transactions
from tests.support.waiting import wait_until

PARTITIONS = 3
PATIENCE_S = 180.0
KILLS = 100

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")


class Run:
    """A query, the files it reads, the broker it writes to, and everything that can be killed."""

    def __init__(self, directory: Path, broker: Any) -> None:
        self.broker = broker
        self.lines = Lines(directory / "lines")
        self.orders = directory / "orders"
        self.orders.mkdir()
        self.topic = create_topic(broker.bootstrap, fresh("copied"), PARTITIONS)
        self._checkpoint = directory / "checkpoint"
        self._output = directory / "driver.out"
        self._settings = Settings(
            broker.bootstrap,
            self.topic,
            str(self.lines.directory),
            str(self._checkpoint),
            str(self.orders),
            str(directory / "scratch"),
            TUNED,
        )
        self._driver: subprocess.Popen[bytes] | None = None

    def start_driver(self) -> None:
        with self._output.open("ab") as output:
            self._driver = subprocess.Popen(
                self._settings.command(), stdout=output, stderr=output, start_new_session=True
            )

    def driver_is_dead(self) -> bool:
        return self._driver is None or self._driver.poll() is not None

    def kill_driver(self) -> None:
        """The Python and the Java half of it; the workers end when they notice."""
        if self._driver is not None:
            if self._driver.poll() is None:
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()

    def kill_workers(self) -> int:
        """The Python processes that run tasks and commits: what an executor's death is to the sink."""
        workers = [pid for pid in _descendants(self._driver) if b"pyspark.daemon" in _command(pid)]
        for pid in workers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(workers)

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def files_done(self) -> int:
        """As Spark's checkpoint says. After a crash two files can come in one batch, so batches do not tell."""
        done = [int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")]
        if not done:
            return 0
        offset = (self._checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
        return int(json.loads(offset)["logOffset"]) + 1

    def wait_for_files(self, count: int) -> None:
        wait_until(
            lambda: self.files_done() >= count or self.driver_is_dead(),
            f"file {count} to be copied; {self._output.read_text()[-2000:]}",
            PATIENCE_S,
        )

    def finish(self) -> None:
        """Wait until all is copied, and look at it."""
        for order in self.orders.iterdir():
            order.unlink(missing_ok=True)
        while self.files_done() < len(self.lines.written) // LINES:
            if self.driver_is_dead():
                self.start_driver()
            self.wait_for_files(self.files_done() + 1)
        found = committed_values(self.broker.bootstrap, self.topic, PARTITIONS)
        assert found == sorted(self.lines.written), _difference(found, self.lines.written)
        assert open_transactions(self.broker.bootstrap) == []


def _difference(found: list[str], expected: list[str]) -> str:
    twice = sorted({value for value in found if found.count(value) > 1})
    return f"missing {sorted(set(expected) - set(found))[:20]}, twice {twice[:20]}"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(process: subprocess.Popen[bytes] | None) -> list[int]:
    """All processes below one, the nearest first."""
    found = [] if process is None else [process.pid]
    for pid in found:
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in thread.read_text().split()]
            except OSError:
                continue
    return found[1:]


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
    wait_until(run.driver_is_dead, "the driver to die in the middle of its commit", PATIENCE_S)
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
            PATIENCE_S,
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
