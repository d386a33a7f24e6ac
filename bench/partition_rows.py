"""`make bench ARGS=--partitions`: what a client notices while a broker creates, opens and deletes 5,000 partitions.

A client produces 100 records a second to a topic of one partition (`bench.paced_client`) through these phases:

    idle       no other work
    create     one CreateTopics request of five topics with 1,000 partitions each, until its response
    fill       one record to each of the 5,000 partitions, again where a partition has no leader yet
    steady     two checkpoints and two checks of the retention
    kill       SIGKILL and a start; then until the client has been served for some seconds
    stop       SIGTERM, until the process has ended; then a start as above
    delete     the five topics, until their files are removed

The longest pause of a phase is the greatest time between a record's due time and its acknowledgement. While no
broker runs there is none: the phases `kill` and `stop` report the time from the start of the process to the first
acknowledgement, and the longest pause after it.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench import first_ack, paced_client
from bench.kafka_jars import KAFKA_VERSION
from bench.peers import KAFKA_FLUSH_POLICY, KafkaPeer, OttlaPeer, Peer
from bench.places import DATA, RESULTS, ROOT

KAFKA, POLICY, SYNCED = "kafka", "ottla-kafka-policy", "ottla-synced"
TITLES = {KAFKA: "Kafka", POLICY: "Ottla, Kafka's policy", SYNCED: "Ottla, synced"}
TOPICS = tuple(f"many-{number}" for number in range(5))
PARTITIONS = 1000
PACED_TOPIC = "paced"
FILLED_PER_REQUEST = 250
PAUSE_MAX_S = 0.2
RETRIABLE = (3, 6)
PARTITION_RESPONSE_BYTES = 30
TICK_MS = 4000
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": str(TICK_MS),
    "log.retention.check.interval.ms": str(TICK_MS),
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}
STEADY_S = 2.5 * TICK_MS / 1000
TIMEOUT_S = 180.0
Figures = dict[str, float]
PAUSES = ("idle", "create", "fill", "steady", "kill", "stop", "delete")
DURATIONS = (
    "create",
    "fill",
    "kill: first acknowledgement",
    "stop: process ended",
    "stop: first acknowledgement",
)


class Paced:
    """The paced client as a process, and what it has recorded."""

    def __init__(self, port: int, file: Path) -> None:
        file.unlink(missing_ok=True)
        self._file = file
        command = [sys.executable, "-m", "bench.paced_client", str(port), PACED_TOPIC, str(file)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def samples(self) -> Iterator[tuple[float, float]]:
        data = self._file.read_bytes() if self._file.exists() else b""
        size = paced_client.SAMPLE.size
        return paced_client.SAMPLE.iter_unpack(data[: len(data) // size * size])

    def longest_pause(self, begin: float) -> float:
        """Of the records acknowledged after `begin`, and of the one under way."""
        longest, last = 0.0, begin
        for due, acknowledged in self.samples():
            if acknowledged > begin:
                longest, last = max(longest, acknowledged - max(due, begin)), acknowledged
        return max(longest, time.monotonic() - last - paced_client.INTERVAL_S)

    def first_after(self, begin: float) -> float | None:
        return next((acknowledged for _, acknowledged in self.samples() if acknowledged > begin), None)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._file.unlink(missing_ok=True)


@dataclass(slots=True)
class Measurement:
    """The phases on one broker."""

    peer: Peer
    say: Callable[[str], None]
    pauses: Figures = field(default_factory=dict)
    durations: Figures = field(default_factory=dict)
    paced: Paced = field(init=False)

    def run(self) -> None:
        self.peer.wipe()
        self.peer.start(topic=PACED_TOPIC)
        self.paced = Paced(self.peer.port, self.peer.data.with_suffix(".acks"))
        try:
            self._served()
            with self._phase("idle"):
                time.sleep(3)
            self._create()
            with self._phase("fill"):
                begin = time.monotonic()
                fill(self.peer.port)
                self.durations["fill"] = time.monotonic() - begin
            with self._phase("steady"):
                time.sleep(STEADY_S)
            self._restart("kill", signal.SIGKILL)
            self._restart("stop", signal.SIGTERM)
            self._delete()
        finally:
            self.paced.close()
            self.peer.kill()
            self.peer.wipe()

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.say(name)
        begin = time.monotonic()
        yield
        time.sleep(0.5)
        self.pauses[name] = self.paced.longest_pause(begin)
        self.say(f"{name}: longest pause {self.pauses[name]:.3f} s")

    def _served(self) -> None:
        """Wait until the client has been served for some seconds."""
        begin = self._first_ack(time.monotonic())
        time.sleep(max(0.0, begin + 3 - time.monotonic()))

    def _first_ack(self, begin: float) -> float:
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self.paced.first_after(begin)) is None:
            self.peer.check_alive()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.peer.name} acknowledged nothing within {TIMEOUT_S:g} s")
            time.sleep(0.01)
        return found

    def _create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.peer.bootstrap, "log_level": 0})
        new = [NewTopic(name, PARTITIONS, 1) for name in TOPICS]
        with self._phase("create"):
            begin = time.monotonic()
            created = admin.create_topics(new, request_timeout=TIMEOUT_S, operation_timeout=TIMEOUT_S)
            for result in created.values():
                result.result()
            self.durations["create"] = time.monotonic() - begin

    def _restart(self, name: str, sig: signal.Signals) -> None:
        process = self.peer.process
        assert process is not None
        self.say(name)
        begin = time.monotonic()
        process.send_signal(sig)
        process.wait(TIMEOUT_S)
        if sig == signal.SIGTERM:
            self.durations["stop: process ended"] = time.monotonic() - begin
        begin = time.monotonic()
        with self.peer.log_path.open("ab") as log:
            self.peer.process = subprocess.Popen(self.peer.command(), stdout=log, stderr=subprocess.STDOUT)
        first = self._first_ack(begin)
        self.durations[f"{name}: first acknowledgement"] = first - begin
        time.sleep(STEADY_S)
        self.pauses[name] = self.paced.longest_pause(first)
        self.say(
            f"{name}: first acknowledgement {first - begin:.2f} s, longest pause {self.pauses[name]:.3f} s"
        )

    def _delete(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.peer.bootstrap, "log_level": 0})
        with self._phase("delete"):
            for result in admin.delete_topics(list(TOPICS), operation_timeout=TIMEOUT_S).values():
                result.result()
            deadline = time.monotonic() + TIMEOUT_S
            while any(self.peer.data.glob("many-*")):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.peer.name} did not remove the files of deleted topics")
                time.sleep(0.25)


def fill(port: int) -> None:
    """Produce one record to each partition, some hundred partitions a request; retry those not created yet."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as sock:
        for topic in TOPICS:
            for begin in range(0, PARTITIONS, FILLED_PER_REQUEST):
                left = list(range(begin, begin + FILLED_PER_REQUEST))
                while left := produce_to(sock, topic, left):
                    time.sleep(0.02)


def produce_to(sock: socket.socket, topic: str, indexes: list[int]) -> list[int]:
    """Produce one record to each of these partitions; returns those that have no leader yet."""
    batch = first_ack.one_record_batch(b"fill")
    body = struct.pack(">hhii", -1, -1, 60_000, 1) + first_ack.text(topic) + struct.pack(">i", len(indexes))
    body += b"".join(struct.pack(">ii", index, len(batch)) + batch for index in indexes)
    response = first_ack.call(sock, first_ack.PRODUCE, 7, body)
    at = 4 + 2 + len(topic) + 4
    again = []
    for number in range(len(indexes)):
        index, error = struct.unpack_from(">ih", response, at + number * PARTITION_RESPONSE_BYTES)
        if error in RETRIABLE:
            again.append(index)
        elif error:
            raise RuntimeError(f"{topic}-{index}: error {error}")
    return again


def make_peer(broker: str) -> Peer:
    directory = DATA / broker
    if broker == KAFKA:
        return KafkaPeer(directory, SETTINGS)
    return OttlaPeer(directory, {**SETTINGS, **(KAFKA_FLUSH_POLICY if broker == POLICY else {})})


def measure(console: Console, *, only: str, save: bool) -> bool:
    """Measure each broker once; whether all of them could be."""
    brokers = [name for name in (KAFKA, POLICY, SYNCED) if name.startswith(only)]
    measured: dict[str, Measurement] = {}
    failures = []
    began = datetime.now()
    for broker in brokers:
        os.sync()
        run = Measurement(make_peer(broker), partial(console.print, f"{broker}:"))
        try:
            run.run()
            measured[broker] = run
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as problem:
            failures.append(f"{broker}: {problem}")
            console.print(f"failed: {failures[-1]}", style="red", markup=False)
    rows = list(lines(measured))
    table = Table("figure", *(TITLES[name] for name in measured))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if save and measured:
        write_results(measured, rows, failures, began)
    return not failures


def lines(measured: dict[str, Measurement]) -> Iterator[tuple[str, ...]]:
    for name in PAUSES:
        yield (f"longest pause s, {name}", *(f"{run.pauses[name]:.3f}" for run in measured.values()))
    for name in DURATIONS:
        yield (f"{name}, s", *(f"{run.durations[name]:.2f}" for run in measured.values()))


def write_results(
    measured: dict[str, Measurement], rows: list[tuple[str, ...]], failures: list[str], began: datetime
) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 1
    document = {
        "began": began.isoformat(timespec="seconds"),
        "cores": cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "pauses": {name: run.pauses for name, run in measured.items()},
        "durations": {name: run.durations for name, run in measured.items()},
        "failures": failures,
    }
    name = f"partitions-{began:%Y-%m-%dT%H%M}-{cores}-cores.json"
    (RESULTS / name).write_text(json.dumps(document, indent=1) + "\n")
    out = [
        "# 5,000 partitions: what a client that produces 100 records a second notices",
        "",
        f"- {began:%Y-%m-%d}, {cores} cores, Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION}",
        "- one round; client and broker share the machine; the phases are described in `bench/partition_rows.py`",
        f"- wanted: no pause of Ottla above {PAUSE_MAX_S:g} s; the first acknowledgement no later than Kafka's",
        *(f"- failed: {failure}" for failure in failures),
        "",
        f"| figure | {' | '.join(TITLES[name] for name in measured)} |",
        f"|---|{'---:|' * len(measured)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    (RESULTS / "partitions.md").write_text("\n".join(out) + "\n")
