"""1,000 topics with three partitions and three replicas on three brokers, beside three combined nodes of Apache Kafka.

    python -m bench.many_topics [--topics 100,1000] [--only ottla] [--save]

While a client produces to six partitions of another topic (`bench.failover.Prober`), a cluster passes these phases:

    create       one CreateTopics request for each 250 topics, until the last response
    fill         one record with acks=all to each partition, until the last acknowledgement: every replica has it
    idle         no client
    one killed   SIGKILL to a broker, until clients are served again; then its start, until every ISR is complete
    all killed   SIGKILL to all brokers and their start, until every ISR is complete

Each phase has its duration, the longest pause of the client between two acknowledgements of one partition, and the
processor time of the brokers. With several numbers of topics the table also shows the growth from the first to the
last. Linear growth is as large as that of the number of topics.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.clusters import BROKERS, cpu_seconds, make_cluster, rss_bytes
from bench.failover import PARTITIONS as PROBED_PARTITIONS
from bench.failover import Prober
from bench.kafka_jars import KAFKA_VERSION
from bench.places import RESULTS
from bench.table import KAFKA, SYNCED
from ottla.local.cluster import LocalCluster

PARTITIONS = 3
TOPICS_PER_REQUEST = 250
IDLE_S = 10.0
SERVED_S = 2.0
LOOK_EVERY_S = 0.25
TIMEOUT_S = 600.0
Figures = dict[str, float]


class ManyTopics:
    """The phases on one cluster with one number of topics."""

    def __init__(
        self, cluster: LocalCluster, topics: int, figures: Figures, report: Callable[[str], None]
    ) -> None:
        self.cluster, self.figures, self.report = cluster, figures, report
        self.topics = [f"many-{number}" for number in range(topics)]
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        probed = NewTopic("probe", PROBED_PARTITIONS, BROKERS)
        self.admin.create_topics([probed])["probe"].result(TIMEOUT_S)
        self.prober = Prober(cluster.bootstrap, "probe")

    def run(self) -> None:
        try:
            self._wait(lambda: all(self.prober.times.values()), "the client to be served")
            with self._phase("create"):
                self._create()
            with self._phase("fill"):
                self._fill()
            self.figures["memory MB"] = rss_bytes(self.cluster) / 1e6
            self._stay_idle()
            self._kill_one()
            self._kill_all()
            self.figures["memory MB, restarted"] = rss_bytes(self.cluster) / 1e6
        finally:
            self.prober.close()

    @contextmanager
    def _phase(self, name: str, cpu_before: float | None = None) -> Iterator[None]:
        before = cpu_seconds(self.cluster) if cpu_before is None else cpu_before
        begin = time.monotonic()
        yield
        self.figures[f"{name}: s"] = time.monotonic() - begin
        self.figures[f"{name}: CPU s"] = cpu_seconds(self.cluster) - before
        self._wait(lambda: self._served_since(time.monotonic() - 1.0), "the client to be served")
        self.figures[f"{name}: longest pause s"] = max(
            self.prober.longest_pause(number, begin) for number in range(PROBED_PARTITIONS)
        )
        self.report(", ".join(f"{key} {self.figures[key]:.2f}" for key in self.figures if name in key))

    def _create(self) -> None:
        for begin in range(0, len(self.topics), TOPICS_PER_REQUEST):
            new = [
                NewTopic(name, PARTITIONS, BROKERS)
                for name in self.topics[begin : begin + TOPICS_PER_REQUEST]
            ]
            created = self.admin.create_topics(new, request_timeout=TIMEOUT_S, operation_timeout=TIMEOUT_S)
            for result in created.values():
                try:
                    result.result(TIMEOUT_S)
                except KafkaException as error:
                    # A broker sends a request again if the controller changes meanwhile.
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise

    def _fill(self) -> None:
        missing = {(topic, number) for topic in self.topics for number in range(PARTITIONS)}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            missing.discard((message.topic(), message.partition()))

        settings = {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "log_level": 0}
        # A broker may list a new topic later than the controller's response.
        waits = ("message.timeout.ms", "topic.metadata.propagation.max.ms")
        producer = Producer({**settings, **dict.fromkeys(waits, int(TIMEOUT_S * 1000))})
        for topic, number in sorted(missing):
            producer.produce(topic, b"fill", partition=number, on_delivery=delivered)
            producer.poll(0)
        producer.flush(TIMEOUT_S)
        if missing:
            raise RuntimeError(f"{len(missing)} partitions acknowledged nothing within {TIMEOUT_S:g} s")

    def _stay_idle(self) -> None:
        self.prober.close()
        time.sleep(SERVED_S)
        before = cpu_seconds(self.cluster)
        time.sleep(IDLE_S)
        self.figures["idle: CPU %"] = (cpu_seconds(self.cluster) - before) / IDLE_S * 100
        self.report(f"idle: CPU % {self.figures['idle: CPU %']:.1f}")
        self.prober = Prober(self.cluster.bootstrap, "probe")
        self._wait(lambda: all(self.prober.times.values()), "the client to be served")

    def _kill_one(self) -> None:
        controller = self.cluster.controller()
        victim = next(node_id for node_id in self.cluster.brokers if node_id != controller)
        rest = cpu_seconds(self.cluster, without=victim)
        with self._phase("one killed", rest):
            killed = time.monotonic()
            self.cluster.kill(victim)
            self._wait(lambda: self._served_since(killed + SERVED_S), "the client to be served")
        with self._phase("one restarted"):
            self.cluster.brokers[victim].launch()
            self._wait_in_sync()

    def _kill_all(self) -> None:
        with self._phase("all killed", 0.0):
            self.cluster.kill_all()
            for broker in self.cluster.brokers.values():
                broker.launch()
            self._wait_in_sync()

    def _served_since(self, moment: float) -> bool:
        return all(times and times[-1] > moment for times in self.prober.times.values())

    def _wait_in_sync(self) -> None:
        self._wait(self._all_in_sync, "complete ISRs")

    def _all_in_sync(self) -> bool:
        try:
            known = self.admin.list_topics(timeout=10).topics
        except KafkaException:
            return False
        found = [known[name].partitions for name in self.topics if name in known]
        return len(found) == len(self.topics) and all(
            len(partition.isrs) == BROKERS for partitions in found for partition in partitions.values()
        )

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {TIMEOUT_S:g} s for {what}")
            time.sleep(LOOK_EVERY_S)


def measure(broker: str, topics: int, report: Callable[[str], None]) -> Figures:
    """The figures of all phases; without those that follow a phase that failed."""
    cluster = make_cluster(broker)
    figures: Figures = {}
    try:
        cluster.start()
        ManyTopics(cluster, topics, figures, report).run()
    except (OSError, RuntimeError, KafkaException) as problem:
        report(f"failed: {problem}")
    finally:
        cluster.kill_all()
        shutil.rmtree(cluster.data, ignore_errors=True)
    return figures


def lines(found: dict[str, dict[int, Figures]]) -> Iterator[tuple[str, ...]]:
    """The rows of the table: each figure for each broker and number of topics, and its growth."""
    all_figures = [figures for by_topics in found.values() for figures in by_topics.values()]
    for key in dict.fromkeys(key for figures in all_figures for key in figures):
        cells = []
        for by_topics in found.values():
            values = [by_topics[topics].get(key) for topics in sorted(by_topics)]
            cells += ["–" if value is None else f"{value:,.2f}" for value in values]
            first, last = values[0], values[-1]
            cells.append(f"{last / first:.1f} x" if first and last and len(values) > 1 else "")
        yield (key, *cells)


def headings(found: dict[str, dict[int, Figures]]) -> list[str]:
    return ["figure"] + [
        heading
        for broker, by_topics in found.items()
        for heading in (*(f"{broker}, {topics}" for topics in sorted(by_topics)), "growth")
    ]


def write_results(found: dict[str, dict[int, Figures]], began: datetime) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"many-topics-{began:%Y-%m-%dT%H%M}.json").write_text(json.dumps(found, indent=1) + "\n")
    names = headings(found)
    load = os.getloadavg()[0]
    out = [
        "# Many topics with three partitions and three replicas, on three brokers",
        "",
        f"- {began:%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION}",
        f"- `python -m bench.many_topics`; one round; load average at the end {load:.0f}",
        "- the phases are described in `bench/many_topics.py`",
        "- memory is that of the largest broker, processor time that of all",
        "",
        f"| {' | '.join(names)} |",
        f"|---|{'---:|' * (len(names) - 1)}",
        *(f"| {' | '.join(row)} |" for row in lines(found)),
    ]
    (RESULTS / "many-topics.md").write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser("bench.many_topics", description=__doc__.splitlines()[0])
    parser.add_argument("--topics", default="100,1000", help="numbers of topics, separated by commas")
    parser.add_argument("--only", default="", help="measure only brokers whose name begins so: kafka, ottla")
    parser.add_argument("--save", action="store_true", help="write bench/results")
    chosen = parser.parse_args()
    console, began = Console(), datetime.now()
    sizes = sorted(int(number) for number in chosen.topics.split(","))
    brokers = [name for name in (KAFKA, SYNCED) if name.startswith(chosen.only)]
    found: dict[str, dict[int, Figures]] = {broker: {} for broker in brokers}
    for topics in sizes:
        for broker in brokers:
            console.print(f"{broker}: three brokers, {topics} topics")
            found[broker][topics] = measure(
                broker, topics, lambda text: console.print(f"  {text}", highlight=False)
            )
    table = Table(*headings(found), title="Many topics")
    for row in lines(found):
        table.add_row(*row)
    console.print(table)
    if chosen.save:
        write_results(found, began)


if __name__ == "__main__":
    main()
