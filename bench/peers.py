"""The brokers that are compared, as processes: Apache Kafka (one combined node) and Ottla.

A peer owns its data directory and its process. `start` returns once a record has been acknowledged and
remembers how long that took; formatting Kafka's directory is not counted. `stop` ends it cleanly, `kill` does
not.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from bench import first_ack, process
from bench.kafka_jars import class_path, java

KAFKA_JVM = (
    "-Xmx1g",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
ONE_NODE = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.max.size": "2147483647",
}
"""No initial delay for a rebalance; a member expires after 6 s."""
KAFKA_FLUSH_POLICY = {"log.flush.interval.messages": "9223372036854775807"}
EVERY_MESSAGE_FLUSHED = {"log.flush.interval.messages": "1"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Peer(ABC):
    name = "peer"

    def __init__(
        self, data: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.data = data
        self.overrides = dict(overrides or {})
        self.port = port or free_port()
        self.start_seconds = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.data.with_suffix(".out")

    @abstractmethod
    def prepare(self) -> None:
        """Makes an empty data directory fit to be started."""

    @abstractmethod
    def command(self) -> list[str]: ...

    def start(self, *, topic: str = "first-ack") -> None:
        self.prepare()
        self.data.parent.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)
        first_ack.wait(self.port, topic=topic, alive=self.check_alive)
        self.start_seconds = time.monotonic() - begin

    def check_alive(self) -> None:
        if self.process is None or self.process.poll() is not None:
            tail = self.log_path.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{self.name} ended before it was asked to:\n{tail}")

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self.process.pid

    def cpu_seconds(self) -> float:
        return process.cpu_seconds(self.pid)

    def rss_bytes(self) -> int:
        return process.rss_bytes(self.pid)

    def stop(self, sig: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def wipe(self) -> None:
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)

    def __enter__(self) -> Peer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class KafkaPeer(Peer):
    name = "Kafka"

    def __init__(
        self, data: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        super().__init__(data, overrides, port=port)
        self.controller_port = free_port()

    @property
    def properties(self) -> Path:
        return self.data.with_suffix(".properties")

    def prepare(self) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            **ONE_NODE,
            **self.overrides,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (self.data / "meta.properties").exists():
            cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
            format_it = [*java("kafka.tools.StorageTool"), "format", "--standalone", "-t", cluster_id]
            subprocess.run([*format_it, "-c", str(self.properties)], check=True, capture_output=True)

    def command(self) -> list[str]:
        return ["java", *KAFKA_JVM, "-cp", class_path(), "kafka.Kafka", str(self.properties)]


class OttlaPeer(Peer):
    name = "Ottla"

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", **self.overrides}
        command = [sys.executable, "-m", "ottla.cli.main", "broker", "--data", str(self.data)]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        return command
