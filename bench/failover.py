"""How long clients wait when a broker of three fails: acks=all, default settings, confluent-kafka.

    python -m bench.failover [--rounds 10] [--only leader,paused] [--kafka]

A producer sends a record to each partition every few milliseconds. A pause is the longest time between two
acknowledgements of one partition, from the last one before the fault on. Each row has the median and the worst over
rounds and partitions:

    leader       the broker is killed (SIGKILL): partitions that it led
    follower     the same kill: partitions that it only followed
    controller   the active controller is killed: all partitions
    paused       SIGSTOP: partitions that the broker led, for a client that waits one second for a response; with its
                 default librdkafka waits 60 s for a broker that is silent, whatever the cluster does
    paused both  the same for a broker that is also the active controller
    clean stop   SIGTERM: all partitions, and the number of errors that the client saw
    all killed   SIGKILL to all, started again at once: all partitions
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from statistics import median

from confluent_kafka import ElectionType, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.clusters import make_cluster
from bench.places import RESULTS
from bench.table import KAFKA, SYNCED
from ottla.local.cluster import LocalCluster

PARTITIONS = 6
INTERVAL_S = 0.005
QUIET_S = 1.0
SETTLE_S = 1.5
LONGEST_S = 60.0
LIMITS_S = {
    "leader": (0.5, 1.5),
    "follower": (0.3, 1.5),
    "controller": (0.5, 1.5),
    "paused": (4.0, 4.0),
    "paused both": (4.0, 4.0),
    "clean stop": (0.2, 0.2),
    "all killed": (3.0, 3.0),
}
"""What is required of Ottla: median and worst."""


class Prober:
    """A producer in a thread, and the times of its acknowledgements."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.times: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._stop = threading.Event()
        chosen = {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, **chosen})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                if len(self._producer) < 50_000:
                    self._producer.produce(
                        self._topic, b"probe", partition=partition, on_delivery=self._delivered
                    )
            self._producer.poll(0)
            self._stop.wait(INTERVAL_S)
        self._producer.flush(30)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.times[message.partition()].append(time.monotonic())

    def pause(self, partition: int, moment: float) -> float:
        """Wait until records are acknowledged again; the longest gap since the fault."""
        deadline = moment + LONGEST_S
        while time.monotonic() < deadline:
            times = self.times[partition]
            if times and times[-1] > moment + QUIET_S and times[-1] - moment > 2 * self._gap(times, moment):
                break
            time.sleep(0.02)
        return self.longest_pause(partition, moment)

    def longest_pause(self, partition: int, moment: float) -> float:
        """The longest time between two acknowledgements, from the last one before a moment on."""
        return self._gap(self.times[partition], moment)

    @staticmethod
    def _gap(times: list[float], moment: float) -> float:
        before = [each for each in times[-100_000:] if each <= moment]
        line = [before[-1] if before else moment, *(each for each in times if each > moment)]
        return max((later - earlier for earlier, later in pairwise(line)), default=LONGEST_S)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Failover:
    """The scenarios on one cluster."""

    def __init__(self, cluster: LocalCluster, console: Console) -> None:
        self.cluster, self.console = cluster, console
        self.pauses: dict[str, list[float]] = defaultdict(list)
        self.errors = 0
        self.topic = "failover"
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)])[self.topic].result(30)
        self._wait_in_sync()
        self.prober = Prober(cluster.bootstrap, self.topic)
        time.sleep(SETTLE_S)

    def _wait_in_sync(self) -> None:
        for partition in range(PARTITIONS):
            self.cluster.wait_in_sync(self.topic, self.cluster.brokers, partition)

    def _led_by(self, node_id: int) -> list[int]:
        return [number for number in range(PARTITIONS) if self.cluster.leader(self.topic, number) == node_id]

    def run(self, name: str) -> None:
        scenarios: dict[str, Callable[[], None]] = {
            "leader": self._leader,
            "controller": self._controller,
            "paused": lambda: self._paused("paused", is_controller=False),
            "paused both": lambda: self._paused("paused both", is_controller=True),
            "clean stop": self._clean_stop,
            "all killed": self._all_killed,
        }
        scenarios[name]()
        self._wait_in_sync()
        self._balance()
        time.sleep(SETTLE_S)

    def _balance(self) -> None:
        """Elect the preferred leaders: a client whose partitions all have one leader is slower when that one ends."""
        partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        self.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)

    def _measure(self, name: str, partitions: list[int], moment: float, prober: Prober | None = None) -> None:
        found = [(prober or self.prober).pause(partition, moment) for partition in partitions]
        self.pauses[name] += found
        shown = ", ".join(f"{pause:.2f}" for pause in found)
        self.console.print(f"  {name}: {shown} s", highlight=False)

    def _leader(self) -> None:
        controller = self.cluster.controller()
        victim = next(
            (id_ for id_ in self.cluster.brokers if id_ != controller and self._led_by(id_)),
            self.cluster.leader(self.topic, 0),
        )
        led = self._led_by(victim)
        moment = time.monotonic()
        self.cluster.kill(victim)
        self._measure("leader", led, moment)
        self._measure("follower", [number for number in range(PARTITIONS) if number not in led], moment)
        self.cluster.restart(victim)

    def _controller(self) -> None:
        victim = self.cluster.controller()
        if victim is None:
            raise RuntimeError("no controller")
        moment = time.monotonic()
        self.cluster.kill(victim)
        self._measure("controller", list(range(PARTITIONS)), moment)
        self.cluster.restart(victim)

    def _paused(self, name: str, *, is_controller: bool) -> None:
        active = self.cluster.controller()
        victim = next(
            id_ for id_ in self.cluster.brokers if (id_ == active) is is_controller and self._led_by(id_)
        )
        led = self._led_by(victim)
        prober = Prober(self.cluster.bootstrap, self.topic, socket_timeout_ms=1_000)
        time.sleep(SETTLE_S)
        moment = time.monotonic()
        self.cluster.pause(victim)
        self._measure(name, led, moment, prober)
        self.cluster.resume(victim)
        prober.close()

    def _clean_stop(self) -> None:
        victim = self.cluster.leader(self.topic, 0)
        errors = len(self.prober.errors)
        moment = time.monotonic()
        self.cluster.stop(victim)
        self._measure("clean stop", list(range(PARTITIONS)), moment)
        self.errors += len(self.prober.errors) - errors
        self.cluster.restart(victim)

    def _all_killed(self) -> None:
        moment = time.monotonic()
        self.cluster.kill_all()
        self.cluster.restart_all()
        self._measure("all killed", list(range(PARTITIONS)), moment)


def table_of(results: dict[str, dict[str, list[float]]]) -> Table:
    table = Table(title="Longest pause of a client, seconds: median / worst")
    table.add_column("fault")
    for name in results:
        table.add_column(name, justify="right")
    table.add_column("required of Ottla", justify="right")
    for fault, (middle, worst) in LIMITS_S.items():
        cells = [
            f"{median(found[fault]):.2f} / {max(found[fault]):.2f}" if found.get(fault) else ""
            for found in results.values()
        ]
        table.add_row(fault, *cells, f"{middle:g} / {worst:g}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser("bench.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="faults, separated by commas")
    parser.add_argument("--kafka", action="store_true", help="also Apache Kafka")
    parser.add_argument("--save", action="store_true", help="write bench/results")
    chosen = parser.parse_args()
    console = Console()
    wanted = [name.strip() for name in chosen.only.split(",") if name.strip()]
    names = [name for name in LIMITS_S if name != "follower" and (not wanted or name in wanted)]
    results: dict[str, dict[str, list[float]]] = {}
    for broker in [SYNCED, *([KAFKA] if chosen.kafka else [])]:
        console.print(f"{broker}: three brokers")
        cluster = make_cluster(broker)
        cluster.start()
        try:
            run = Failover(cluster, console)
            for _ in range(chosen.rounds):
                for name in names:
                    run.run(name)
            run.prober.close()
        finally:
            cluster.kill_all()
        results[broker] = run.pauses
        console.print(f"  errors that the client saw at clean stops: {run.errors}")
    console.print(table_of(results))
    if chosen.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"failover-{datetime.now():%Y-%m-%dT%H%M}.json"
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
