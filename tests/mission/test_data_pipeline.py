"""Mission, the data pipeline: match events become live scoreboards by Spark, and a crash loses and doubles nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.pipelines.progress import RunProgress
from ottla.pipelines.screens import Board
from ottla.pipelines.topics import create_missing
from tests.conftest import MakeBroker
from tests.support import scoreboard as judge
from tests.support.waiting import wait_until

PIPELINE = "ottla.pipelines.scoreboard"
PATIENCE_S = 300.0
needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "OTTLA_REQUIRE_SPARK" not in os.environ, reason="Spark needs Java"
)

Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`ottla pipelines run` in processes that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(bootstrap: str, *words: str) -> subprocess.Popen[str]:
        line = [
            sys.executable,
            "-m",
            "ottla.cli.main",
            "pipelines",
            "run",
            PIPELINE,
            "--bootstrap",
            bootstrap,
        ]
        process = subprocess.Popen(
            [*line, "--master", "local[2]", "--state", str(tmp_path / "state"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.slow
@needs_java
def test_the_data_pipeline(command: Command, make_broker: MakeBroker, tmp_path: Path) -> None:
    """Streaming, killed in the middle, streaming again, then a triggered run: the output is that of no crash."""
    from ottla.pipelines.scoreboard import pipeline

    broker, state = make_broker(), tmp_path / "state" / "scoreboard"
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    arrived = judge.arrivals(3, SystemClock().now_ms())
    thirds = [arrived[:200], arrived[200:400], arrived[400:]]

    def has_read(rows: int) -> bool:
        told = RunProgress.read(state)
        return told is not None and told.pid == process.pid and told.flows["scoreboard"].rows >= rows

    judge.send(broker.bootstrap, thirds[0])
    process = command(broker.bootstrap)
    wait_until(lambda: has_read(1), "the first batch", PATIENCE_S)
    judge.send(broker.bootstrap, thirds[1])
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    process = command(broker.bootstrap)
    wait_until(lambda: has_read(1), "the batches after the crash", PATIENCE_S)
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told
    for noise in ("ERROR", "WARN", "Traceback", "Exception"):
        assert noise not in told
    assert "stopped" in told

    judge.send(broker.bootstrap, thirds[2])
    process = command(broker.bootstrap, "--once")
    told, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told
    standings, statistics = judge.expected(broker.bootstrap)
    assert judge.shown(broker.bootstrap) == standings
    assert judge.figures(broker.bootstrap) == statistics
    assert judge.table(str(state / "tables" / "scoreboard")) == {
        match: each for (match, _), each in standings.items()
    }
    mobile = Board()
    for standing in judge.shown(broker.bootstrap).values():
        mobile.show(standing)
    assert mobile.ended(3, 0), "what a device shows in the end"
