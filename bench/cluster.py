"""Three brokers, replication factor 3, acks=all: Ottla beside three combined nodes of Apache Kafka.

    python -m bench.cluster [--rounds 3] [--quick] [--only ottla]

The raw rows use the compiled load generator, one process for each broker, with a topic that this broker leads. The
client rows use confluent-kafka. CPU is that of the three brokers together; memory is that of the largest broker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import datetime
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.clusters import cpu_seconds, make_cluster, rss_bytes, timed_start
from bench.places import LOAD, RESULTS, ROOT, build_loads
from bench.table import KAFKA, POLICY, SYNCED
from ottla.local.cluster import LocalCluster

PARTITIONS = 4
Figures = dict[str, float]
ROWS = {
    "raw 64 KiB": "MB/s",
    "raw 64 KiB, CPU": "s/GB",
    "raw 100 B batches": "requests/s",
    "confluent 1 KB": "MB/s",
    "confluent 1 KB, CPU": "s/GB",
    "latency p50": "ms",
    "latency p99": "ms",
    "cold start": "s",
    "memory, idle": "MB",
    "memory, after load": "MB",
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
    before = cpu_seconds(cluster)
    run = subprocess.run([*command, *map(str, numbers)], cwd=ROOT, capture_output=True, text=True, check=True)
    return {**json.loads(run.stdout.splitlines()[-1]), "cpu_s": cpu_seconds(cluster) - before}


def measure(broker: str, quick: bool) -> Figures:
    cluster = make_cluster(broker)
    found: Figures = {"cold start": timed_start(cluster)}
    seconds, records = (2.0, 100_000) if quick else (5.0, 400_000)
    try:
        found["memory, idle"] = rss_bytes(cluster) / 1e6
        create(cluster, "bench", [replicas_led_by(number % 3) for number in range(6)])
        client(cluster, "produce", "bench", records // 2, 1000)
        large = raw(
            cluster, "large", seconds, connections=4, inflight=4, batch_bytes=65536, record_bytes=1000
        )
        found["raw 64 KiB"], found["raw 64 KiB, CPU"] = large["MB/s"], large["s/GB"]
        small = raw(cluster, "small", seconds, connections=4, inflight=16)
        found["raw 100 B batches"] = small["requests/s"]
        produced = client(cluster, "produce", "bench", records, 1000)
        found["confluent 1 KB"] = produced["mb_per_s"]
        found["confluent 1 KB, CPU"] = produced["cpu_s"] / (records * 1000 / 1e9)
        paced = client(cluster, "latency", "bench", 500, seconds)
        found["latency p50"], found["latency p99"] = paced["p50_ms"], paced["p99_ms"]
        found["memory, after load"] = rss_bytes(cluster) / 1e6
    finally:
        cluster.kill_all()
    return found


def table_of(samples: dict[str, list[Figures]]) -> Table:
    table = Table(title="Three brokers, replication factor 3, acks=all: medians")
    table.add_column("row")
    for broker in samples:
        table.add_column(broker, justify="right")
    for row, unit in ROWS.items():
        values = [median(each[row] for each in found if row in each) for found in samples.values()]
        cells = [f"{value:,.1f} {unit}" for value in values]
        table.add_row(row, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser("bench.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", default="", help="measure only brokers whose name begins so: kafka, ottla")
    parser.add_argument("--save", action="store_true", help="write bench/results")
    chosen = parser.parse_args()
    build_loads()
    console = Console()
    brokers = [name for name in (KAFKA, POLICY, SYNCED) if name.lower().startswith(chosen.only.lower())]
    samples: dict[str, list[Figures]] = {broker: [] for broker in brokers}
    for _ in range(1 if chosen.quick else chosen.rounds):
        for broker in brokers:
            console.print(f"measuring {broker}")
            samples[broker].append(measure(broker, chosen.quick))
    console.print(table_of(samples))
    if chosen.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"cluster-{datetime.now():%Y-%m-%dT%H%M}.json"
        path.write_text(json.dumps(samples, indent=1) + "\n")


if __name__ == "__main__":
    main()
