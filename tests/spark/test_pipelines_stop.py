"""Signals while `ottla pipelines run` starts: it ends soon, prints no traceback, and leaves no process behind."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local.ports import free_port
from tests.conftest import MakeBroker
from tests.support.clients import create_topic
from tests.support.pipeline_command import PipelineCommand, pipeline_command
from tests.support.waiting import wait_until

TIMEOUT_S = 300.0
END_S_MAX = 15.0
"""Shorter than the rest of the 30 s for which a run tries to reach a broker."""
WORDS = """
from ottla.pipelines import Pipeline, topic
pipeline = Pipeline("words")
@pipeline.flow(reads=topic("words", schema="word STRING"), writes=topic("copies", key="word"))
def copies(words):
    return words
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[PipelineCommand]:
    with pipeline_command(tmp_path / "state") as command:
        yield command


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return str(path)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"the command has ended without the line {text}")


def java_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes of the sessions that the command has created: Java, and the script that starts it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == process.pid:
            found.append(int(folder.name))
    return found


def test_a_run_that_waits_for_a_broker_is_stopped_at_once(command: PipelineCommand, file: str) -> None:
    process = command(file, f"127.0.0.1:{free_port()}")
    read_until(process, "No broker can be reached")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, output
    assert "Traceback" not in output


@pytest.mark.parametrize("moment", ["line", "process", "log"])
def test_a_second_signal_during_the_start_prints_no_traceback(
    command: PipelineCommand, file: str, make_broker: MakeBroker, tmp_path: Path, moment: str
) -> None:
    broker = make_broker()
    for topic in ("words", "copies"):
        create_topic(broker.bootstrap, topic)
    process = command(file, broker.bootstrap)
    read_until(process, "Starting Spark")
    log = tmp_path / "state" / "words" / "spark.log"
    if moment != "line":
        wait_until(lambda: bool(java_of(process)), "the process of Java", TIMEOUT_S)
    if moment == "log":
        wait_until(lambda: log.exists() and log.stat().st_size > 0, "the log of Spark", TIMEOUT_S)
    java = java_of(process)
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode in (0, 130), output
    assert "Traceback" not in output
    assert "py4j" not in output.lower()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in java), "the end of Java")
