"""Time from the start of `ottla pipelines run` until it runs and until its first result, on real Spark.

    python -m bench.pipeline_start [--runs N] [OPTION OF pipelines run]...

A flow with JSON values and a count per key reads a topic with ten records. The processor time of the command, Java and
Python workers is printed beside the time that has passed, because other programs disturb only the latter.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from confluent_kafka import Producer

from bench.process import cpu_seconds
from ottla.local.broker_process import BrokerProcess
from ottla.pipelines.progress import RunProgress

PIPELINE = """
from pyspark.sql import functions as F
from ottla.pipelines import Pipeline, topic
pipeline = Pipeline("counting")
@pipeline.flow(reads=topic("words", schema="word STRING"), writes=topic("counts", key="word"), mode="update")
def counts(words):
    return words.groupBy("word").agg(F.count("*").alias("times"))
"""
RUNNING, FIRST_BATCH, END = "running", "first batch", "end after SIGTERM"
Times = dict[str, tuple[float, float]]
"""Seconds that have passed and seconds of the processor, by step."""


def measure(bootstrap: str, folder: Path, options: list[str]) -> Times:
    file = folder / "counting.py"
    file.write_text(PIPELINE)
    command = [sys.executable, "-m", "ottla.cli.main", "pipelines", "run", str(file), "--json"]
    command += ["--bootstrap", bootstrap, "--state", str(folder / "state"), *options]
    found: Times = {}
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            progress = msgspec.json.decode(line, type=RunProgress)
            now = time.monotonic() - started, cpu_seconds(process.pid)
            if progress.state == "running":
                found.setdefault(RUNNING, now)
            if progress.flows["counts"].rows:
                found[FIRST_BATCH] = now
                break
        stopped = time.monotonic()
        process.terminate()
        process.communicate()
        found[END] = time.monotonic() - stopped, 0.0
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    arguments, options = parser.parse_known_args()
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        BrokerProcess(Path(folder) / "broker") as broker,
    ):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(10):
            producer.produce("words", f'{{"word": "word {number % 3}"}}')
        producer.flush()
        del producer
        runs = []
        for number in range(arguments.runs):
            home = Path(folder) / str(number)
            home.mkdir()
            runs.append(measure(broker.bootstrap, home, options))
    for step in (RUNNING, FIRST_BATCH, END):
        passed, used = zip(*(each[step] for each in runs), strict=True)
        print(f"{step}: {statistics.median(passed):.1f} s, processor {statistics.median(used):.1f} s")


if __name__ == "__main__":
    main()
