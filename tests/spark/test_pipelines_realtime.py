"""`ottla pipelines run --realtime`: the scoreboard in milliseconds through Spark's own connector, and its refusals."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.pipelines.io.topics import create_missing
from tests.conftest import MakeBroker
from tests.support import scoreboard as checker
from tests.support.pipeline_command import pipeline_command
from tests.support.waiting import wait_until

TIMEOUT_S = 300.0
APPENDING = """
from ottla.pipelines import Pipeline, topic
pipeline = Pipeline("appending")
@pipeline.flow(reads=topic("in"), writes=topic("out"))
def copy(frame):
    return frame.select("value")
"""

pytestmark = [pytest.mark.compat, pytest.mark.slow]
Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`ottla pipelines run --realtime` with the connector's jars."""
    from bench.spark_jars import connector_jars

    realtime = ("--realtime", "--jars", connector_jars())
    with pipeline_command(tmp_path / "state") as run:
        yield lambda what, bootstrap, *words: run(what, bootstrap, *realtime, *words)


def test_the_scoreboard_in_real_time(command: Command, make_broker: MakeBroker, tmp_path: Path) -> None:
    from ottla.scoreboard.pipeline import pipeline

    broker = make_broker()
    create_missing(broker.bootstrap, pipeline.topics().values(), {})
    checker.send(broker.bootstrap, checker.arrivals(2, SystemClock().now_ms()))
    standings, statistics = checker.expected(broker.bootstrap)
    process = command("ottla.scoreboard.pipeline", broker.bootstrap)
    wait_until(
        lambda: (
            process.poll() is not None
            or (
                checker.shown(broker.bootstrap) == standings
                and checker.figures(broker.bootstrap) == statistics
            )
        ),
        "the scoreboard",
        TIMEOUT_S,
    )
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    assert checker.shown(broker.bootstrap) == standings, output
    assert checker.figures(broker.bootstrap) == statistics, output


def test_too_few_slots_are_refused_before_spark_starts(command: Command, make_broker: MakeBroker) -> None:
    process = command("ottla.scoreboard.pipeline", make_broker().bootstrap, "--master", "local[4]")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "needs 11 task slots" in " ".join(output.split())


def test_a_refusal_of_real_time_mode_is_explained(
    command: Command, make_broker: MakeBroker, tmp_path: Path
) -> None:
    path = tmp_path / "appending.py"
    path.write_text(APPENDING)
    process = command(str(path), make_broker().bootstrap)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2, "it would be refused for ever"
    assert 'declare the flow with mode="update"' in " ".join(output.split())
