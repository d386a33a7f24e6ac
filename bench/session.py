"""One broker while it is measured: topics to make, loads to run, the broker's CPU time while they run.

Every load is a process of its own. A load says `measuring` when its warm-up is over; from then to its end the
CPU seconds of the broker are counted. Between loads the disk is synced, so that one row's write-back is not
the next one's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.kafka_jars import java
from bench.peers import Peer
from bench.places import FRAMES, LOAD, ROOT

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how much; chosen so that one round's data stay below 10 GB."""

    seconds: float
    bytes_max: int
    records_small: int
    records_large: int
    warmup_seconds: float


class LoadFailed(RuntimeError):
    """A load ended with an error; the row is reported as failed."""


class Session:
    def __init__(self, peer: Peer, scale: Scale) -> None:
        self.peer = peer
        self.scale = scale
        self._admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        self._topics: set[str] = set()

    def topic(self, name: str, partitions: int) -> str:
        if name not in self._topics:
            self._topics.add(name)
            created = self._admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=60)
            created[name].result()
            self._wait_for_leaders(name, partitions)
        return name

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        for _ in range(200):
            known = self._admin.list_topics(name).topics[name].partitions.values()
            if len(known) == partitions and all(partition.leader >= 0 for partition in known):
                return
            time.sleep(0.05)
        raise LoadFailed(f"{name} has no leaders after 10 s")

    def drop(self, name: str) -> None:
        if name in self._topics:
            self._topics.remove(name)
            self._admin.delete_topics([name])[name].result()

    def settle(self) -> None:
        os.sync()

    def load(self, mode: str, topic: str, partitions: int, **options: float) -> Metrics:
        """Runs the compiled generator; adds the broker's CPU seconds to what it prints."""
        command = [str(LOAD), mode, "--port", str(self.peer.port), "--topic", topic]
        command += ["--partitions", str(partitions)]
        return self._generate(command, options)

    def frames(self, file: Path, *, connections: int) -> Metrics:
        """Sends the requests in a file over and over."""
        command = [str(FRAMES), "--port", str(self.peer.port), "--file", str(file)]
        return self._generate(command, {"connections": connections, "seconds": self.scale.seconds})

    def _generate(self, command: list[str], options: dict[str, float]) -> Metrics:
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self.settle()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            assert run.stderr is not None
            run.stdout.readline()
            before = self.peer.cpu_seconds()
            answer = run.stdout.read()
            after = self.peer.cpu_seconds()
            complaint = run.stderr.read()
        if run.returncode:
            raise LoadFailed(complaint.strip())
        metrics: Metrics = json.loads(answer)
        metrics["broker_cpu_s"] = cpu = max(after - before, 0.01)
        metrics["mb_per_cpu_s"] = metrics["bytes"] / 1e6 / cpu
        metrics["requests_per_cpu_s"] = metrics["requests"] / cpu
        return metrics

    def confluent(self, action: str, topic: str, *numbers: float) -> Metrics:
        return self.python("bench.confluent_client", action, topic, *numbers)

    def python(self, module: str, action: str, topic: str, *rest: object) -> Metrics:
        command = [sys.executable, "-m", module, action, self.peer.bootstrap, topic, *map(str, rest)]
        output, cpu = self._client(command)
        return {**json.loads(output.splitlines()[-1]), "broker_cpu_s": cpu}

    def java_produce(self, topic: str, records: int, size: int) -> Metrics:
        """Kafka's ProducerPerformance; its own warm-up records are left out by the tool itself."""
        command = java("org.apache.kafka.tools.ProducerPerformance")
        command += ["--bootstrap-server", self.peer.bootstrap, "--topic", topic, "--throughput", "-1"]
        command += ["--num-records", str(records), "--warmup-records", str(records // 4)]
        command += ["--record-size", str(size)]
        command += ["--command-property", "acks=all", "batch.size=65536", "linger.ms=5"]
        output, cpu = self._client(command)
        totals = re.findall(r"([\d.]+) records/sec \(([\d.]+) MB/sec\)", output)
        if not totals:
            raise LoadFailed(output[-500:])
        return {"records_per_s": float(totals[-1][0]), "broker_cpu_s": cpu}

    def java_consume(self, topic: str, records: int) -> Metrics:
        """Kafka's ConsumerPerformance, which joins a group; only where the broker has groups."""
        command = java("org.apache.kafka.tools.ConsumerPerformance")
        command += [
            "--bootstrap-server",
            self.peer.bootstrap,
            "--topic",
            topic,
            "--num-records",
            str(records),
        ]
        command += ["--hide-header", "--timeout", "30000"]
        output, cpu = self._client(command)
        fields = output.strip().splitlines()[-1].split(",")
        return {"records_per_s": float(fields[9]), "broker_cpu_s": cpu}

    def _client(self, command: list[str]) -> tuple[str, float]:
        self.settle()
        before = self.peer.cpu_seconds()
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
        cpu = self.peer.cpu_seconds() - before
        if run.returncode:
            raise LoadFailed((run.stderr or run.stdout).strip()[-500:])
        return run.stdout, cpu

    def idle_rss_mb(self) -> float:
        time.sleep(2)
        return self.peer.rss_bytes() / 1e6
