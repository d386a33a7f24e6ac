"""Three brokers as processes: Ottla's, or three combined nodes of Apache Kafka with the same ports and settings."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from bench import process
from bench.kafka_jars import class_path, java
from bench.peers import KAFKA_FLUSH_POLICY, KAFKA_JVM
from bench.places import DATA, compile_bytecode
from bench.table import KAFKA, POLICY
from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.cluster import LocalCluster
from ottla.local.requests import request_metadata

BROKERS = 3
START_TIMEOUT_S = 90.0
COMMON = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class KafkaProcess(BrokerProcess):
    """One combined node of Apache Kafka."""

    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")

    def command(self) -> list[str]:
        return [
            shutil.which("java") or "java",
            *KAFKA_JVM,
            "-cp",
            class_path(),
            "kafka.Kafka",
            str(self._properties),
        ]

    @property
    def _properties(self) -> Path:
        return self.data.with_suffix(".properties")

    def prepare(self) -> None:
        """Write the settings, and format the directory if it is empty."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        settings = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            **self._overrides,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (self.data / "meta.properties").exists():
            format_it = [*java("kafka.tools.StorageTool"), "format", "-t", self.cluster_id]
            subprocess.run([*format_it, "-c", str(self._properties)], check=True, capture_output=True)

    def launch(self) -> None:
        self.prepare()
        super().launch()

    def wait_ready(self, stop: threading.Event | None = None) -> None:
        """Wait until it responds, or until `stop` is set: it prints nothing."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if request_metadata("127.0.0.1", self.port) is not None:
                return
            if not self.running:
                raise BrokerNotStarted(self.output()[-4000:])
            if stop is not None and stop.is_set():
                return
            time.sleep(0.05)
        raise TimeoutError(f"Apache Kafka was not ready within {START_TIMEOUT_S} s")


class KafkaCluster(LocalCluster):
    """Three combined nodes of Apache Kafka."""

    def _process(self, node_id: int, folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return KafkaProcess(folder, settings, port=self._ports[node_id].client)


def make_cluster(broker: str) -> LocalCluster:
    """A cluster of the given kind on an empty directory."""
    compile_bytecode()
    folder = DATA / f"cluster-{broker.split(maxsplit=1)[0].lower()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind = KafkaCluster if broker == KAFKA else LocalCluster
    return kind(folder, BROKERS, config={**COMMON, **(KAFKA_FLUSH_POLICY if broker == POLICY else {})})


def timed_start(cluster: LocalCluster) -> float:
    """Start a cluster on an empty directory; the seconds that it took, without Kafka's format step."""
    for broker in cluster.brokers.values():
        if isinstance(broker, KafkaProcess):
            broker.prepare()
    begin = time.monotonic()
    cluster.start()
    return time.monotonic() - begin


def cpu_seconds(cluster: LocalCluster, *, without: int | None = None) -> float:
    """Processor time of all running brokers, or of all others than one."""
    return sum(
        process.cpu_seconds(broker.pid)
        for node_id, broker in cluster.brokers.items()
        if broker.running and node_id != without
    )


def kernel_seconds(cluster: LocalCluster) -> float:
    """The part of the processor time of all running brokers that the kernel used."""
    return sum(process.kernel_seconds(broker.pid) for broker in cluster.brokers.values() if broker.running)


def idle_percent(cluster: LocalCluster, seconds: float = 10.0) -> float:
    """The processor time of the busiest broker while no client is connected, in percent of a core."""
    before = {broker.pid: process.cpu_seconds(broker.pid) for broker in cluster.brokers.values()}
    time.sleep(seconds)
    return max(process.cpu_seconds(pid) - used for pid, used in before.items()) / seconds * 100


def rss_bytes(cluster: LocalCluster) -> int:
    """The largest resident memory of a broker."""
    return max(process.rss_bytes(broker.pid) for broker in cluster.brokers.values())
