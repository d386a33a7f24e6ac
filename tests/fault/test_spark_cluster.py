"""Brokers of a cluster of three are killed and restarted under queries on Spark: the output is correct.

The sink's query copies lines of files to a topic exactly once, in a Spark driver of its own process. In the end the
topic, read with read_committed, contains every line once and no transaction is open. The scoreboard pipeline is run by
its command; in the end its topics and its table are those that the events in the cluster imply.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.pipelines.io.topics import create_missing
from ottla.pipelines.progress import RunProgress
from ottla.testing import Cluster
from tests.support import scoreboard as checker
from tests.support.dying_sink import STEPS
from tests.support.pipeline_command import PipelineCommand, pipeline_command
from tests.support.sink_queries import LINES
from tests.support.sink_run import TIMEOUT_S, Run
from tests.support.waiting import wait_until

PIPELINE = "ottla.scoreboard.pipeline"
PIPELINE_TIMEOUT_S = 600.0
DEFAULT_REPLICAS = -1
COMMIT_STEPS_MIN = 8
"""The fewest steps of a commit of three transactions."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    two_phase = getattr(request, "param", False)
    config = {"transaction.two.phase.commit.enable": "true"} if two_phase else {}
    with Cluster(3, config=config, proxies=False) as made:
        yield made


@pytest.fixture
def run(tmp_path: Path, cluster: Cluster) -> Iterator[Run]:
    made = Run(tmp_path, cluster, replicas=DEFAULT_REPLICAS)
    yield made
    made.kill_driver()


def files_written(run: Run) -> int:
    return len(run.lines.written) // LINES


def both_kinds_of_commit(test: pytest.Function) -> pytest.Function:
    marked: pytest.Function = pytest.mark.parametrize(
        "cluster", [True, False], indirect=True, ids=["two-phase", "one-phase"]
    )(test)
    return marked


@both_kinds_of_commit
def test_each_broker_is_killed_under_the_sink(run: Run, cluster: Cluster) -> None:
    """Batches are committed while a broker is missing, while it returns, and after all brokers were killed."""
    dice = random.Random(5)
    run.lines.add()
    run.start_driver()
    run.wait_for_files(1)
    for victim in [*cluster.brokers, dice.choice(list(cluster.brokers))]:
        run.lines.add()
        run.wait_for_files(files_written(run) - dice.randint(0, 1))
        run.lines.add()
        cluster.kill(victim)
        run.wait_for_files(files_written(run))
        run.lines.add()
        cluster.restart(victim)
        run.wait_for_files(files_written(run))
    run.lines.add()
    cluster.kill_all()
    cluster.restart_all()
    run.finish()


@both_kinds_of_commit
def test_a_broker_is_killed_at_every_step_of_a_commit(run: Run, cluster: Cluster) -> None:
    """The driver is stopped at a step, a broker is killed, and the driver continues without that broker."""
    run.start_driver()
    for step in range(STEPS):
        victim = step % len(cluster.brokers)
        (run.orders / f"hold-driver-{step}").touch()
        held = run.orders / f"held-driver-{step}"
        run.lines.add()
        wait_until(
            lambda: held.exists() or run.files_done() == files_written(run),  # noqa: B023
            f"the driver to stop at step {step}",
            TIMEOUT_S,
        )
        if not held.exists():
            assert step >= COMMIT_STEPS_MIN
            break
        cluster.kill(victim)
        held.unlink()
        run.wait_for_files(files_written(run))
        cluster.restart(victim)
        for partition in range(3):
            cluster.wait_in_sync(run.topic, cluster.brokers, partition)
    run.finish()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[PipelineCommand]:
    with pipeline_command(tmp_path / "state") as command:
        yield command


def test_the_scoreboard_while_brokers_are_killed(
    command: PipelineCommand, cluster: Cluster, tmp_path: Path
) -> None:
    from ottla.scoreboard.pipeline import pipeline

    state = tmp_path / "state" / "scoreboard"
    create_missing(cluster.bootstrap, pipeline.topics().values(), {})
    arrived = checker.arrivals(3, SystemClock().now_ms())
    parts = [arrived[begin : begin + 100] for begin in range(0, len(arrived), 100)]

    def rows_read() -> int:
        progress = RunProgress.read(state)
        return 0 if progress is None else progress.flows["scoreboard"].rows

    checker.send(cluster.bootstrap, parts[0])
    process = command(PIPELINE, cluster.bootstrap, "--master", "local[2]")
    wait_until(lambda: rows_read() > 0, "the first batch", PIPELINE_TIMEOUT_S)
    for number, part in enumerate(parts[1:]):
        victim = number % len(cluster.brokers)
        before = rows_read()
        cluster.kill(victim)
        checker.send(cluster.bootstrap, part)
        wait_until(lambda: rows_read() > before, f"a batch without broker {victim}", PIPELINE_TIMEOUT_S)  # noqa: B023
        cluster.restart(victim)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PIPELINE_TIMEOUT_S)
    assert process.returncode == 0, output

    process = command(PIPELINE, cluster.bootstrap, "--master", "local[2]", "--once")
    output, _ = process.communicate(timeout=PIPELINE_TIMEOUT_S)
    assert process.returncode == 0, output
    standings, statistics = checker.expected(cluster.bootstrap)
    assert len(checker.committed(cluster.bootstrap, "matches")) == len(arrived)
    assert checker.shown(cluster.bootstrap) == standings
    assert checker.figures(cluster.bootstrap) == statistics
    assert checker.table(str(state / "tables" / "scoreboard")) == {
        match: each for (match, _), each in standings.items()
    }
