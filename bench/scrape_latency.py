"""Latency of a real client while the metrics of many partitions are scraped, beside that without a scrape.

    python -m bench.scrape_latency [--partitions N] [--rounds N]

A broker has N partitions and a group with a committed offset in each. A client produces 100 records a second with
acks=all and one request in flight; another process scrapes, then waits for as long as the scrape took, in turns. The
longest pause of the broker is the difference of the two.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.paced_client import SAMPLE
from ottla.admin.session import Session
from ottla.admin.topics import create_topic
from ottla.base.ids import TopicPartition
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port

TOPIC_PARTITIONS = 1000
TIMEOUT_S = 600.0
WARM_S = 3.0
Window = tuple[float, float]


def fill(bootstrap: str, partitions: int) -> None:
    """Create topics with this number of partitions, and a group with offsets in all of them."""
    with Session(bootstrap, timeout_s=TIMEOUT_S) as session:
        create_topic(session, "paced", partitions=1)
        for first in range(0, partitions, TOPIC_PARTITIONS):
            name, count = f"topic-{first}", min(TOPIC_PARTITIONS, partitions - first)
            create_topic(session, name, partitions=count)
            session.cluster.commit_offsets("group", {TopicPartition(name, each): 0 for each in range(count)})


def scrape(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as response:
        return len(response.read())


def latencies_ms(samples: Sequence[Window], windows: Sequence[Window]) -> list[float]:
    """Of records that were due in one of the windows."""
    return [
        1000 * (acknowledged - due)
        for due, acknowledged in samples
        if any(start <= due < end for start, end in windows)
    ]


def line(what: str, found: list[float]) -> str:
    longest = sorted(found)[-max(1, len(found) // 100)]
    return (
        f"{what}: {len(found)} records, median {statistics.median(found):.1f} ms, p99 {longest:.1f} ms, "
        f"longest {max(found):.1f} ms"
    )


def measure(broker: BrokerProcess, metrics_port: int, file: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "bench.paced_client", str(broker.port), "paced", str(file)]
    client = subprocess.Popen(command)
    busy: list[Window] = []
    quiet: list[Window] = []
    try:
        time.sleep(WARM_S)
        size = scrape(metrics_port)
        for _ in range(rounds):
            start = time.monotonic()
            scrape(metrics_port)
            end = time.monotonic()
            busy.append((start, end))
            time.sleep(end - start)
            quiet.append((end, time.monotonic()))
    finally:
        client.terminate()
        client.wait()
    content = file.read_bytes()
    samples = [
        SAMPLE.unpack_from(content, at) for at in range(0, len(content) - SAMPLE.size + 1, SAMPLE.size)
    ]
    spent = statistics.median(end - start for start, end in busy)
    print(f"scrape: {size / 1e6:.1f} MB in {spent:.2f} s")
    print(line("without a scrape", latencies_ms(samples, quiet)))
    print(line("during a scrape", latencies_ms(samples, busy)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    port = free_port()
    settings = {"ottla.metrics.port": str(port), "log.index.size.max.bytes": "10000"}
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        BrokerProcess(Path(folder) / "broker", settings) as broker,
    ):
        fill(broker.bootstrap, given.partitions)
        measure(broker, port, Path(folder) / "samples", given.rounds)


if __name__ == "__main__":
    main()
