"""Executors that die, attempts of a task that run side by side, executors that were given up and wake up.

A master, two workers, real executor processes. The query copies lines of files to a topic exactly once, in three tasks
a batch; one of them is held where the test wants it. In the end the topic, read with read_committed, has every line
once and no transaction is open.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.support.sink_queries import open_transactions
from tests.support.sink_run import Run, command_of, descendants
from tests.support.spark_cluster import TIMEOUT_S, Processes, start_cluster
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.task.maxFailures": "8",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "500ms",
}
SHORT_TIMEOUTS = {
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "1s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
"""How soon an executor that is not heard of is given up, and what it has shuffled."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
]
MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    processes = Processes(folder)
    yield start_cluster(processes, folder, cores=1)
    processes.close()


@pytest.fixture
def make_run(tmp_path: Path, make_broker: MakeBroker, master: str) -> Iterator[MakeRun]:
    made: list[Run] = []

    def make(spark: dict[str, str]) -> Run:
        broker = make_broker({"transaction.two.phase.commit.enable": "true"})
        run = Run(tmp_path, broker, master, {**EXECUTORS, **spark})
        made.append(run)
        run.lines.add()
        run.start_driver()
        run.wait_for_files(1)
        return run

    yield make
    for run in made:
        run.kill_driver()


def held(run: Run, place: str) -> int:
    """The process that has taken the order to stay there."""
    note = run.orders / f"held-task-{place}"
    wait_until(lambda: note.exists() and note.read_text() != "", f"a task at {place}", TIMEOUT_S)
    return int(note.read_text())


def executor_of(pid: int) -> int:
    """The Java process above a Python worker."""
    while b"CoarseGrainedExecutorBackend" not in command_of(pid):
        pid = parent_of(pid)
        assert pid > 1, "a task runs below an executor"
    return pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_an_executor_is_killed_in_the_middle_of_a_batch(make_run: MakeRun) -> None:
    run = make_run({})
    for count, place in enumerate(("begin", "written"), 2):
        (run.orders / f"hold-task-{place}").touch()
        run.lines.add()
        os.kill(executor_of(held(run, place)), signal.SIGKILL)
        run.wait_for_files(count)
    run.lines.add()
    run.finish()


def test_two_attempts_of_a_task_write(make_run: MakeRun) -> None:
    """The first stays until the batch is committed with the second, then goes on for as long as Spark lets it."""
    run = make_run(SPECULATION)
    for count, place in enumerate(("start", "begin", "written"), 2):
        (run.orders / f"hold-task-{place}").touch()
        run.lines.add()
        held(run, place)
        run.wait_for_files(count)
        (run.orders / f"held-task-{place}").unlink()
    run.lines.add()
    run.finish()


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Processes that are held by a signal; what is left of them goes on in the end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("place", "then"),
    [
        pytest.param("start", "written", id="writes-when-all-is-decided"),
        pytest.param("begin", "failed", id="goes-on-in-its-transaction"),
    ],
)
def test_an_executor_that_was_presumed_dead_resumes(
    make_run: MakeRun, stopped: list[int], place: str, then: str
) -> None:
    """All of a machine stands still: were it only the executor, Spark's worker would end it."""
    run = make_run(SHORT_TIMEOUTS)
    (run.orders / f"hold-task-{place}").touch()
    run.lines.add()
    zombie = held(run, place)
    worker = parent_of(executor_of(zombie))
    stopped += [worker, *descendants(worker)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    run.wait_for_files(2)
    run.check()
    (run.orders / f"hold-task-{then}").touch()
    (run.orders / f"held-task-{place}").unlink()
    os.kill(zombie, signal.SIGCONT)
    assert held(run, then) == zombie
    run.check()
    assert open_transactions(run.broker.bootstrap) == []
    (run.orders / f"held-task-{then}").unlink()
    run.lines.add()
    run.finish()
