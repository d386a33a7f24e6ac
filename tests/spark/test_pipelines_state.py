"""State outlives the process that keeps it: `ottla pipelines run` leaves snapshots of it, and goes on from them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.progress import RunProgress
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, Reader, create_topic
from tests.support.pipeline_command import PipelineCommand, pipeline_command
from tests.support.waiting import wait_until

TIMEOUT_S = 300.0
COUNTING = """
from pyspark.sql import functions as F
from ottla.pipelines import Pipeline, topic
pipeline = Pipeline("counting")
@pipeline.flow(reads=topic("words", schema="word STRING"), writes=topic("counts", key="word"), mode="update")
def counts(words):
    return words.groupBy("word").agg(F.count("*").alias("times"))
"""
SOON = (
    "--conf=spark.sql.streaming.stateStore.maintenanceInterval=1s",
    "--conf=spark.sql.streaming.stateStore.minDeltasForSnapshot=2",
)
"""Spark makes snapshots every minute, of ten batches and more."""
FIRST, ALL = 8, 12


@pytest.fixture
def command(tmp_path: Path) -> Iterator[PipelineCommand]:
    with pipeline_command(tmp_path / "state") as command:
        yield command


@pytest.mark.skipif(
    shutil.which("java") is None and "OTTLA_REQUIRE_SPARK" not in os.environ, reason="Spark needs Java"
)
def test_snapshots_of_the_state_are_kept(
    command: PipelineCommand, make_broker: MakeBroker, tmp_path: Path
) -> None:
    """Batch by batch, until there is a snapshot; the next run goes on from it without a count too many."""
    file, state = tmp_path / "counting.py", tmp_path / "state" / "counting"
    file.write_text(COUNTING)
    broker = make_broker()
    for topic in ("words", "counts"):
        create_topic(broker.bootstrap, topic)
    publisher = Publisher(broker.bootstrap)

    def batches(first: int, last: int) -> None:
        """Events one at a time: each waits until the one before is counted, so that it is a batch of its own."""
        for number in range(first, last):
            publisher.send("words", [{"value": json.dumps({"word": "one"}).encode()}])
            wait_until(lambda number=number: has_read(number + 1 - first), f"batch {number}", TIMEOUT_S)

    def has_read(rows: int) -> bool:
        progress = RunProgress.read(state)
        assert process.poll() is None, process.communicate()
        return progress is not None and progress.pid == process.pid and progress.flows["counts"].rows >= rows

    def snapshots() -> list[Path]:
        return list(state.glob("checkpoints/**/state/**/*.zip"))

    process = command(str(file), broker.bootstrap, "--restarts", "0", *SOON)
    batches(0, FIRST)
    wait_until(lambda: bool(snapshots()), "a snapshot", TIMEOUT_S)
    assert not list(state.glob("checkpoints/**/offsets/.*.crc")), "Hadoop's own checksums cost a process each"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output

    process = command(str(file), broker.bootstrap, "--restarts", "0", *SOON)
    batches(FIRST, ALL)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    assert "Exception" not in (state / "spark.log").read_text()
    with Reader(broker.bootstrap, "counts", [0]) as reader:
        counted = [json.loads(message.value())["times"] for message in reader.take(ALL)]
    assert counted == list(range(1, ALL + 1))
