"""Mission, the data pipeline: match events become live scoreboards by Spark, and a crash loses and doubles nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.pipelines.io.topics import create_missing
from ottla.pipelines.progress import RunProgress
from ottla.scoreboard.screens import Board
from tests.conftest import MakeBroker
from tests.support import scoreboard as checker
from tests.support.pipeline_command import PipelineCommand, pipeline_command
from tests.support.waiting import wait_until

PIPELINE = "ottla.scoreboard.pipeline"
LOCAL = ("--master", "local[2]")
TIMEOUT_S = 300.0
needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "OTTLA_REQUIRE_SPARK" not in os.environ, reason="Spark needs Java"
)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[PipelineCommand]:
    with pipeline_command(tmp_path / "state") as command:
        yield command


@pytest.mark.slow
@needs_java
def test_the_data_pipeline(command: PipelineCommand, make_broker: MakeBroker, tmp_path: Path) -> None:
    """Streaming, killed in the middle, streaming again, then a triggered run: the output is that of no crash."""
    from ottla.scoreboard.pipeline import pipeline

    broker, state = make_broker(), tmp_path / "state" / "scoreboard"
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    arrived = checker.arrivals(3, SystemClock().now_ms())
    thirds = [arrived[:200], arrived[200:400], arrived[400:]]

    def has_read(rows: int) -> bool:
        progress = RunProgress.read(state)
        return (
            progress is not None and progress.pid == process.pid and progress.flows["scoreboard"].rows >= rows
        )

    checker.send(broker.bootstrap, thirds[0])
    process = command(PIPELINE, broker.bootstrap, *LOCAL)
    wait_until(lambda: has_read(1), "the first batch", TIMEOUT_S)
    checker.send(broker.bootstrap, thirds[1])
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    process = command(PIPELINE, broker.bootstrap, *LOCAL)
    wait_until(lambda: has_read(1), "the batches after the crash", TIMEOUT_S)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    for noise in ("ERROR", "WARN", "Traceback", "Exception"):
        assert noise not in output
    assert "stopped" in output

    checker.send(broker.bootstrap, thirds[2])
    process = command(PIPELINE, broker.bootstrap, *LOCAL, "--once")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    standings, statistics = checker.expected(broker.bootstrap)
    assert checker.shown(broker.bootstrap) == standings
    assert checker.figures(broker.bootstrap) == statistics
    assert checker.table(str(state / "tables" / "scoreboard")) == {
        match: each for (match, _), each in standings.items()
    }
    mobile = Board()
    for standing in checker.shown(broker.bootstrap).values():
        mobile.show(standing)
    assert mobile.ended(3, 0), "what a device shows in the end"
