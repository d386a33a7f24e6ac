"""`make bench`: Ottla and Apache Kafka, one after the other, round after round, on this machine.

Each round starts every broker on an empty directory, warms it up, runs the rows and deletes its data; the
order of the brokers turns from round to round. Beside them a bare loop of write + fdatasync tells what the
disk itself gives. Nothing here is a test: figures depend on the machine, only ratios of one run mean
something.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import table
from bench.first_ack import has_groups
from bench.kafka_jars import KAFKA_VERSION, class_path
from bench.memory import warm_memory
from bench.peers import GROUPS, KAFKA_FLUSH_POLICY, KafkaPeer, OttlaPeer, Peer
from bench.places import DATA, LOAD, RESULTS, build_loads
from bench.rows import KB64, MB1, ROWS, Row
from bench.session import LoadFailed, Scale, Session

FULL = Scale(
    seconds=3, bytes_max=1_500_000_000, records_small=1_500_000, records_large=300_000, warmup_seconds=2.5
)
QUICK = Scale(
    seconds=1.5, bytes_max=600_000_000, records_small=500_000, records_large=100_000, warmup_seconds=1.5
)
DISK_ROWS = {"produce-64k": KB64, "produce-1m": MB1}


@dataclass(slots=True)
class Bench:
    rows: Sequence[Row]
    scale: Scale
    samples: table.Samples
    failures: list[str]
    console: Console
    progress: Progress

    def record(self, broker: str, row: Row, figures: dict[str, float]) -> None:
        kept = self.samples.setdefault(broker, {}).setdefault(row.key, {})
        for name, value in figures.items():
            kept.setdefault(name, []).append(value)

    def run_peer(self, broker: str) -> None:
        peer = make_peer(broker)
        peer.wipe()
        os.sync()
        task = self.progress.add_task(broker, total=len(self.rows), row="starting")
        try:
            peer.start()
            session = Session(peer, self.scale)
            groups = has_groups(peer.port)
            self.start_row(broker, session)
            self.progress.update(task, row="warming up")
            warm_up(session, broker)
            for row in self.rows:
                self.progress.update(task, row=row.title)
                if row.key != "start" and (groups or not row.needs_groups):
                    self.run_row(broker, row, session)
                self.progress.advance(task)
        except (RuntimeError, OSError, KafkaException) as problem:
            self.failures.append(f"{broker}: {problem}")
        finally:
            peer.wipe()
            self.progress.remove_task(task)

    def start_row(self, broker: str, session: Session) -> None:
        """Memory is read before any load, so this row is first whatever the order."""
        for row in self.rows:
            if row.key == "start":
                self.run_row(broker, row, session)

    def run_row(self, broker: str, row: Row, session: Session) -> None:
        try:
            self.record(broker, row, row.run(session))
        except (LoadFailed, subprocess.TimeoutExpired) as problem:
            self.failures.append(f"{broker}, {row.key}: {problem}")
            session.peer.check_alive()

    def run_disk(self) -> None:
        DATA.mkdir(parents=True, exist_ok=True)
        for row in self.rows:
            if (size := DISK_ROWS.get(row.key)) is None:
                continue
            os.sync()
            command = [str(LOAD), "disk", "--batch-bytes", str(size), "--file", str(DATA / "disk")]
            command += ["--seconds", str(self.scale.seconds), "--bytes-max", str(self.scale.bytes_max)]
            answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            self.record(table.DISK, row, {"MB/s": answer["mb_per_s"]})


def make_peer(broker: str) -> Peer:
    directory = DATA / broker
    if broker == table.KAFKA:
        return KafkaPeer(directory, GROUPS)
    return OttlaPeer(directory, {**GROUPS, **(KAFKA_FLUSH_POLICY if broker == table.POLICY else {})})


def warm_up(session: Session, broker: str) -> None:
    """The JVM compiles for seconds: every raw path is walked before anything counts, Ottla's more briefly."""
    seconds = session.scale.warmup_seconds * (1 if broker == table.KAFKA else 0.2)
    topic = session.topic("warm-up", 4)
    shapes: list[dict[str, float]] = [
        {"connections": 4, "inflight": 64},
        {"connections": 32, "inflight": 1},
        {"connections": 4, "inflight": 8, "batch_bytes": KB64, "record_bytes": 1000},
    ]
    for shape in shapes:
        session.load("produce", topic, 4, seconds=seconds, warmup=0.5, bytes_max=600_000_000, **shape)
    session.load("fetch", topic, 4, seconds=seconds, warmup=0, connections=4, batch_bytes=KB64)
    session.drop(topic)


def write_results(bench: Bench, found: list[table.Line], rounds: int, began: datetime) -> str:
    RESULTS.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    name = f"{began:%Y-%m-%dT%H%M}-{cores}-cores"
    document = {
        "began": began.isoformat(timespec="seconds"),
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "rounds": rounds,
        "samples": bench.samples,
        "failures": bench.failures,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    notes = [
        f"{began:%Y-%m-%d}, {cores} cores, Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION}",
        f"medians of {rounds} round(s); load generator and broker share the machine",
        "“synced” is Ottla's default: a record is on disk before it is acknowledged. Kafka's is not",
        *(f"failed: {failure}" for failure in bench.failures),
    ]
    (RESULTS / "latest.md").write_text(table.markdown(found, "Ottla beside Apache Kafka", notes))
    return name


def main(
    rows: Annotated[
        str, typer.Option(help="Keys of rows to run, separated by commas; a prefix is enough.")
    ] = "",
    rounds: Annotated[int, typer.Option(help="How often each broker is measured.")] = 3,
    quick: Annotated[bool, typer.Option(help="One round, fewer rows, shorter.")] = False,
    only: Annotated[str, typer.Option(help="Measure only brokers whose name begins so: kafka, ottla.")] = "",
    save: Annotated[bool, typer.Option(help="Write bench/results.")] = True,
    spark: Annotated[bool, typer.Option(help="Measure Spark's connectors instead of the brokers.")] = False,
    partitions: Annotated[bool, typer.Option(help="Measure pauses with 5,000 partitions instead.")] = False,
) -> None:
    """Measure Ottla beside Apache Kafka."""
    console = Console()
    prefixes = [part.strip() for part in rows.split(",") if part.strip()]
    if spark:
        from bench import spark_rows

        scale = spark_rows.QUICK if quick else spark_rows.FULL
        measured = spark_rows.measure(console, scale, rows=prefixes, only=only, save=save)
        raise typer.Exit(0 if measured else 1)
    if partitions:
        from bench import partition_rows

        raise typer.Exit(0 if partition_rows.measure(console, only=only, save=save) else 1)
    chosen = [
        row
        for row in ROWS
        if (row.quick or not quick) and (not prefixes or any(row.key.startswith(part) for part in prefixes))
    ]
    if not chosen:
        raise typer.BadParameter(f"no such rows; there are: {', '.join(row.key for row in ROWS)}")
    brokers = [name for name in (table.KAFKA, table.POLICY, table.SYNCED) if name.startswith(only)]
    rounds = 1 if quick else rounds
    build_loads()
    if table.KAFKA in brokers or any(row.key.startswith("java") for row in chosen):
        console.print(f"Apache Kafka {KAFKA_VERSION}: {class_path()}")
    began, clock = datetime.now(), time.monotonic()
    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[row]}"), console=console) as progress:
        bench = Bench(chosen, QUICK if quick else FULL, {}, [], console, progress)
        warm_memory()
        whole = progress.add_task("rounds", total=rounds * len(brokers), row="")
        for number in range(rounds):
            bench.run_disk()
            for place in range(len(brokers)):
                bench.run_peer(brokers[(place + number) % len(brokers)])
                progress.advance(whole)
    found = table.lines(chosen, bench.samples)
    console.print(table.rich_table(found))
    for failure in bench.failures:
        console.print(f"failed: {failure}", style="red", markup=False)
    if save:
        name = write_results(bench, found, rounds, began)
        console.print(f"{time.monotonic() - clock:.0f} s; written to bench/results/{name}.json and latest.md")
    if bench.failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
