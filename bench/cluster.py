"""Three brokers, replication factor 3, acks=all: Ottla beside three combined nodes of Apache Kafka.

    python -m bench.cluster [--rounds 3] [--quick] [--only ottla] [--save]

The raw rows use the compiled load generator, one process for each broker, with a topic that this broker leads. The
client rows use confluent-kafka. CPU is that of the three brokers together; memory is that of the largest broker. A cold
start ends when every broker lists all brokers. The first GB is written right after it; before the other rows a JVM has
compiled for a minute more. Before each of these rows free memory is touched (`bench/memory.py`). The client
rows come first: they send the same bytes to each broker. The raw rows take the same time, so that a faster broker has
more data to write to the disk during the rows after them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from math import ceil
from statistics import median
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.clusters import (
    cpu_seconds,
    idle_percent,
    kernel_seconds,
    make_cluster,
    rss_bytes,
    timed_start,
)
from bench.kafka_jars import KAFKA_VERSION
from bench.memory import warm_memory
from bench.places import LOAD, RESULTS, ROOT, build_loads
from bench.table import KAFKA, POLICY, SYNCED, Ratio
from ottla.local.cluster import LocalCluster

PARTITIONS = 4
IDLE_S = 10.0
Figures = dict[str, float]
Samples = dict[str, list[Figures]]
"""By broker, one dictionary for each round."""


class Row(NamedTuple):
    """A figure, its unit, and what is required of Ottla: a ratio to Apache Kafka's figure."""

    unit: str
    policy: float | None = None
    synced: float | None = None
    at_most: bool = False


ROWS = {
    "produce 64 KiB, raw": Row("MB/s", 1.0, 0.7),
    "produce 64 KiB, raw: CPU": Row("s/GB", 0.5, 0.5, at_most=True),
    "produce 100 B, raw": Row("requests/s"),
    "produce 1 KB, confluent-kafka": Row("MB/s", 1.0, 0.7),
    "produce 1 KB, confluent-kafka: CPU": Row("s/GB", 0.5, 0.5, at_most=True),
    "produce 1 KB, confluent-kafka: CPU of the kernel": Row("s/GB"),
    "produce 1 KB, confluent-kafka, first GB after the start: CPU": Row("s/GB", 0.5, 0.5, at_most=True),
    "latency at 500/s, p50": Row("ms", 1.0, 1.5, at_most=True),
    "latency at 500/s, p99": Row("ms", 1.0, 1.5, at_most=True),
    "latency at 500/s, p50, busy client": Row("ms"),
    "latency at 500/s, p99, busy client": Row("ms"),
    "cold start": Row("s", 0.15, 0.15, at_most=True),
    "memory, idle": Row("MB", 0.15, 0.15, at_most=True),
    "memory, after load": Row("MB", 0.15, 0.15, at_most=True),
    "CPU of the busiest broker, idle": Row("% of a core"),
}


def create(cluster: LocalCluster, name: str, assignment: list[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, len(assignment), replica_assignment=assignment)])[name].result(30)
    for partition in range(len(assignment)):
        cluster.wait_in_sync(name, cluster.brokers, partition)


def replicas_led_by(node_id: int) -> list[int]:
    return [node_id, (node_id + 1) % 3, (node_id + 2) % 3]


def raw(cluster: LocalCluster, name: str, seconds: float, **options: float) -> Figures:
    """One load generator for each broker, at the same time."""
    for node_id in cluster.brokers:
        create(cluster, f"{name}-{node_id}", [replicas_led_by(node_id)] * PARTITIONS)
    os.sync()
    running = []
    for node_id, broker in cluster.brokers.items():
        command = [str(LOAD), "produce", "--port", str(broker.port), "--topic", f"{name}-{node_id}"]
        command += ["--partitions", str(PARTITIONS), "--seconds", str(seconds), "--warmup", "1"]
        for option, value in options.items():
            command += [f"--{option.replace('_', '-')}", str(value)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for each in running:
        assert each.stdout is not None
        each.stdout.readline()
    before = cpu_seconds(cluster)
    answers = [json.loads(each.communicate()[0]) for each in running]
    cpu = cpu_seconds(cluster) - before
    size = sum(answer["bytes"] for answer in answers)
    return {
        "MB/s": sum(answer["mb_per_s"] for answer in answers),
        "requests/s": sum(answer["requests"] for answer in answers) / seconds,
        "s/GB": cpu / (size / 1e9),
    }


def client(cluster: LocalCluster, action: str, topic: str, *numbers: float) -> Figures:
    command = [sys.executable, "-m", "bench.confluent_client", action, cluster.bootstrap, topic]
    before, kernel_before = cpu_seconds(cluster), kernel_seconds(cluster)
    run = subprocess.run([*command, *map(str, numbers)], cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        **json.loads(run.stdout.splitlines()[-1]),
        "cpu_s": cpu_seconds(cluster) - before,
        "kernel_s": kernel_seconds(cluster) - kernel_before,
    }


def measure(broker: str, quick: bool, report: Callable[[str], None]) -> Figures:
    """The figures of one round. A row whose load generator fails is reported and is missing."""
    cluster = make_cluster(broker)
    found: Figures = {}
    seconds, records = (2.0, 100_000) if quick else (5.0, 400_000)
    gigabytes = records * 1000 / 1e9

    def large() -> None:
        figures = raw(
            cluster, "large", seconds, connections=4, inflight=4, batch_bytes=65536, record_bytes=1000
        )
        found["produce 64 KiB, raw"] = figures["MB/s"]
        found["produce 64 KiB, raw: CPU"] = figures["s/GB"]

    def small() -> None:
        found["produce 100 B, raw"] = raw(cluster, "small", seconds, connections=4, inflight=16)["requests/s"]

    def produce() -> None:
        figures = client(cluster, "produce", "bench", records, 1000)
        found["produce 1 KB, confluent-kafka"] = figures["mb_per_s"]
        found["produce 1 KB, confluent-kafka: CPU"] = figures["cpu_s"] / gigabytes
        found["produce 1 KB, confluent-kafka: CPU of the kernel"] = figures["kernel_s"] / gigabytes

    def first_gigabyte() -> None:
        runs = [client(cluster, "produce", "bench", records, 1000) for _ in range(ceil(1 / gigabytes))]
        name = "produce 1 KB, confluent-kafka, first GB after the start: CPU"
        found[name] = sum(run["cpu_s"] for run in runs) / (gigabytes * len(runs))

    def latency() -> None:
        figures = client(cluster, "latency", "bench", 500, seconds)
        found["latency at 500/s, p50"] = figures["p50_ms"]
        found["latency at 500/s, p99"] = figures["p99_ms"]
        figures = client(cluster, "busy-latency", "bench", 500, seconds)
        found["latency at 500/s, p50, busy client"] = figures["p50_ms"]
        found["latency at 500/s, p99, busy client"] = figures["p99_ms"]

    try:
        found["cold start"] = timed_start(cluster)
        found["CPU of the busiest broker, idle"] = idle_percent(cluster, IDLE_S)
        found["memory, idle"] = rss_bytes(cluster) / 1e6
        create(cluster, "bench", [replicas_led_by(number % 3) for number in range(6)])
        first_gigabyte()
        # The JVM compiles during the first minute: until then Kafka's latency is hundreds of times as large.
        client(cluster, "latency", "bench", 500, seconds * (10 if broker == KAFKA else 1))
        for row in (produce, latency, large, small):
            report(row.__name__)
            os.sync()
            warm_memory()
            try:
                row()
            except (subprocess.SubprocessError, ValueError, KafkaException) as problem:
                report(f"{row.__name__} failed: {problem}")
        found["memory, after load"] = rss_bytes(cluster) / 1e6
    finally:
        cluster.kill_all()
        shutil.rmtree(cluster.data, ignore_errors=True)
    return found


def medians(samples: Samples, row: str) -> dict[str, float]:
    values = {broker: [each[row] for each in found if row in each] for broker, found in samples.items()}
    return {broker: median(numbers) for broker, numbers in values.items() if numbers}


def lines(samples: Samples) -> Iterator[tuple[str, ...]]:
    for name, row in ROWS.items():
        found = medians(samples, name)
        cells = []
        for broker in samples:
            if broker not in found:
                cells.append("–")
                continue
            target = {POLICY: row.policy, SYNCED: row.synced}.get(broker)
            shown = f"{found[broker]:,.1f} {row.unit}"
            if broker != KAFKA and found.get(KAFKA):
                ratio = Ratio(found[broker] / found[KAFKA], target, row.at_most, beside_disk=False)
                shown += f", {ratio.text()}"
            cells.append(shown)
        yield (name, *cells)


def write_results(samples: Samples, began: datetime, rounds: int) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"cluster-{began:%Y-%m-%dT%H%M}.json").write_text(json.dumps(samples, indent=1) + "\n")
    out = [
        "# Three brokers, replication factor 3, acks=all",
        "",
        f"- {began:%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"Apache Kafka {KAFKA_VERSION}",
        f"- `python -m bench.cluster`; medians of {rounds} round(s); load average at the end {os.getloadavg()[0]:.0f}",
        "- load generators and brokers share the machine; CPU is that of the three brokers, memory that of the largest",
        "- the client of the latency rows sleeps between two records, as a service does; a busy client polls all the "
        "time, which leaves one core to the brokers (until 2026-11-18 the latency rows had this client)",
        "- “synced” is Ottla's default: every in-sync replica has synced a record before it is acknowledged",
        "",
        f"| row | {' | '.join(samples)} |",
        f"|---|{'---:|' * len(samples)}",
        *(f"| {' | '.join(line)} |" for line in lines(samples)),
    ]
    (RESULTS / "cluster.md").write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser("bench.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", default="", help="measure only brokers whose name begins so: kafka, ottla")
    parser.add_argument("--save", action="store_true", help="write bench/results")
    chosen = parser.parse_args()
    build_loads()
    console, began = Console(), datetime.now()
    brokers = [name for name in (KAFKA, POLICY, SYNCED) if name.startswith(chosen.only.lower())]
    rounds = 1 if chosen.quick else chosen.rounds
    samples: Samples = {broker: [] for broker in brokers}
    for number in range(rounds):
        for position in range(len(brokers)):
            broker = brokers[(position + number) % len(brokers)]
            heading = f"round {number + 1} of {rounds}, {broker}:"
            os.sync()
            try:
                samples[broker].append(measure(broker, chosen.quick, partial(console.print, heading)))
            except (OSError, RuntimeError, KafkaException) as problem:
                console.print(f"{heading} failed: {problem}", style="red", markup=False)
    table = Table("row", *brokers, title="Three brokers, replication factor 3, acks=all: medians")
    for line in lines(samples):
        table.add_row(*line)
    console.print(table)
    if chosen.save:
        write_results(samples, began, rounds)


if __name__ == "__main__":
    main()
