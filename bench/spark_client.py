"""Spark as a load, with both connectors in one session: our data source and Spark's own in the JVM.

    python -m bench.spark_client rows BOOTSTRAP SMALL LARGE ROUNDS
    python -m bench.spark_client latency BOOTSTRAP SECONDS
    python -m bench.spark_client realtime BOOTSTRAP SECONDS

Prints one JSON object: by case and connector the figures of all rounds. The connectors take turns, on the same
topics; the first run of each case and connector warms up and does not count. SMALL and LARGE are numbers of records of
100 B and 1 KB. Latency is from handing an event to a producer until a consumer of the sink's topic has it.

Events are sent at several rates: where batches take about as long as events are apart, a little more or less of one
decides whether events queue up. Spark's own connector is measured twice, because its batches wait for a fetch that the
one before has left behind, until the next event comes: the second time its fetches are short.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.spark_jars import connector_jars
from ottla.pipelines.io.connectors import SHORT_FETCHES
from ottla.pipelines.session import LOCAL, TUNED, leave_checksums_out

OURS, STOCK = "ottla", "kafka"
ONCE, EAGER = "ottla, exactly once", "kafka, short fetches"
PARTITIONS = 4
RATES = 10, 33
"""Events a second of micro-batches."""
LIVE_RATE = 33
WARM_PAUSE_S = 1 / LIVE_RATE
SETTLE_S = 120.0
TURNS = 3
"""Of latency; the first warms up, since by then the JVM has compiled what all of them need."""
JSON_SCHEMA = "id BIGINT, name STRING, score INT, ratio DOUBLE, at TIMESTAMP"
Figures = dict[str, dict[str, list[float]]]
Delays = list[float]
"""Median and 99th percentile in milliseconds."""


@contextmanager
def session(slots: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("bench").master(f"local[{slots}]")
    for key, value in {**TUNED, **LOCAL, "spark.driver.memory": "2g", "spark.jars": connector_jars()}.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
    spark = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp(prefix="bench-spark-")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    leave_checksums_out(spark)
    try:
        yield spark
    finally:
        spark.stop()


class Cluster:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        name = f"{name}-{uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=60)[name].result()
        return name

    def drop(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result()

    def fill(self, name: str, records: int, values: Callable[[int], bytes]) -> str:
        """A topic with so many records, evenly over its partitions, in batches as large as they get."""
        topic = self.topic(name)
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 500_000,
                "delivery.report.only.error": True,
            }
        )
        for number in range(records):
            while True:
                try:
                    producer.produce(topic, values(number), b"%08d" % number, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(120):
            raise RuntimeError(f"{topic} could not be filled")
        return topic


def plain(size: int) -> Callable[[int], bytes]:
    body = b"x" * size
    return lambda _: body


def json_value(number: int) -> bytes:
    at = f"2026-01-01T00:00:{number % 60:02}.000Z"
    return json.dumps(
        {"id": number, "name": f"player {number % 997}", "score": number % 100, "ratio": number / 7, "at": at}
    ).encode()


class Rows:
    """Rows a second of reading and writing."""

    def __init__(self, spark: Any, cluster: Cluster) -> None:
        self._spark = spark
        self._cluster = cluster
        self.figures: Figures = {}

    def run(self, small: int, large: int, rounds: int) -> Figures:
        for name, records, size in (("100 B", small, 100), ("1 KB", large, 1000)):
            topic = self._cluster.fill("read", records, plain(size))
            self._take_turns(f"read {name}", records, rounds, self._reading(topic))
            self._take_turns(f"write {name}", records, rounds, self._writing(records, size))
            self._cluster.drop(topic)
        topic = self._cluster.fill("json", small, json_value)
        self._take_turns("read typed JSON", small, rounds, self._typed(topic))
        self._cluster.drop(topic)
        return self.figures

    def _take_turns(self, case: str, records: int, rounds: int, run: Callable[[str], None]) -> None:
        kept: dict[str, list[float]] = {STOCK: [], OURS: []}
        for number in range(rounds + 1):
            for connector, taken in kept.items():
                begin = time.monotonic()
                run(connector)
                if number:
                    taken.append(records / (time.monotonic() - begin))
        self.figures[case] = kept

    def _read(self, connector: str, topic: str, **options: str) -> Any:
        reader = self._spark.read.format(connector).options(**options)
        return (
            reader.option("kafka.bootstrap.servers", self._cluster.bootstrap)
            .option("subscribe", topic)
            .load()
        )

    def _reading(self, topic: str) -> Callable[[str], None]:
        return lambda connector: drain(self._read(connector, topic))

    def _typed(self, topic: str) -> Callable[[str], None]:
        from pyspark.sql import functions as F

        def run(connector: str) -> None:
            if connector == OURS:
                drain(self._read(OURS, topic, valueFormat="json", valueSchema=JSON_SCHEMA))
                return
            frame = self._read(STOCK, topic)
            parsed = F.from_json(frame.value.cast("string"), JSON_SCHEMA).alias("parsed")
            others = [name for name in frame.columns if name != "value"]
            drain(frame.select(*others, parsed).select(*others, "parsed.*"))

        return run

    def _writing(self, records: int, size: int) -> Callable[[str], None]:
        frame = self._spark.range(0, records, 1, PARTITIONS).selectExpr(
            "CAST(CAST(id AS STRING) AS BINARY) AS key", f"CAST(repeat('x', {size}) AS BINARY) AS value"
        )

        def run(connector: str) -> None:
            topic = self._cluster.topic("write")
            writer = frame.write.format(connector).option("kafka.bootstrap.servers", self._cluster.bootstrap)
            writer.option("topic", topic).mode("append").save()
            self._cluster.drop(topic)

        return run


def drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


class Arrivals:
    """Reads the sink's topic on a thread of its own and tells how long each event was under way."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings)
        partitions = self._consumer.list_topics(topic, 30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.delays_ms: dict[int, float] = {}
        self._thread.start()

    def _read(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and not message.error():
                sent = int(message.value())
                self.delays_ms.setdefault(sent, (time.monotonic_ns() - sent) / 1e6)
        self._consumer.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Latency:
    """From the producer's hands through a query to a consumer of its output."""

    def __init__(self, spark: Any, cluster: Cluster, seconds: float) -> None:
        self._spark = spark
        self._cluster = cluster
        self._seconds = seconds

    def micro_batches(self) -> Figures:
        at_least_once = {"deliveryGuarantee": "at-least-once"}
        found = self._take_turns(
            {
                STOCK: lambda: self._measure(STOCK, RATES),
                EAGER: lambda: self._measure(STOCK, RATES, options=SHORT_FETCHES),
                OURS: lambda: self._measure(OURS, RATES, options=at_least_once),
                ONCE: lambda: self._measure(OURS, RATES),
            }
        )
        return {
            f"micro-batch, {rate} events/s": {name: delays[place] for name, delays in found.items()}
            for place, rate in enumerate(RATES)
        }

    def real_time(self) -> Figures:
        live = {"realTime": "5 seconds"}
        found = self._take_turns(
            {
                "real time": lambda: self._measure(STOCK, (LIVE_RATE,), trigger=live),
                "real time, aggregate": lambda: self._measure(
                    STOCK, (LIVE_RATE,), trigger=live, aggregate=True
                ),
            }
        )
        return {case: {STOCK: delays} for case, (delays,) in found.items()}

    @staticmethod
    def _take_turns(cases: dict[str, Callable[[], list[Delays]]]) -> dict[str, list[Delays]]:
        """Of each case the medians over its turns, rate by rate."""
        turns = [{name: measure() for name, measure in cases.items()} for _ in range(TURNS)][1:]
        return {
            name: [
                [median(kind) for kind in zip(*of_rate, strict=True)]
                for of_rate in zip(*(turn[name] for turn in turns), strict=True)
            ]
            for name in cases
        }

    def _measure(
        self,
        connector: str,
        rates: tuple[int, ...],
        *,
        options: dict[str, str] | None = None,
        trigger: dict[str, str] | None = None,
        aggregate: bool = False,
    ) -> list[Delays]:
        """The delays at each rate, one after another in the same query."""
        source, target = self._cluster.topic("events", 1), self._cluster.topic("answers", 1)
        address = {"kafka.bootstrap.servers": self._cluster.bootstrap, **(options or {})}
        frame = self._spark.readStream.format(connector).options(**address)
        frame = frame.option("subscribe", source).option("startingOffsets", "earliest").load()
        frame = frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        if aggregate:
            frame = frame.groupBy("key").agg({"value": "max"}).withColumnRenamed("max(value)", "value")
        writer = frame.writeStream.format(connector).options(**address).option("topic", target)
        if trigger:
            writer = writer.trigger(**trigger).outputMode("update")
        with tempfile.TemporaryDirectory(
            prefix="bench-checkpoint-",
            ignore_cleanup_errors=True,  # Spark may write on for a moment
        ) as folder:
            query = writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).start()
            try:
                return self._send(query, source, target, rates)
            finally:
                query.stop()

    def _send(self, query: Any, source: str, target: str, rates: tuple[int, ...]) -> list[Delays]:
        arrivals = Arrivals(self._cluster.bootstrap, target)
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "linger.ms": 0})
        try:
            self._warm(query, producer, source, arrivals)
            return [self._send_at(rate, query, producer, source, arrivals) for rate in rates]
        finally:
            producer.flush(30)
            arrivals.close()

    def _send_at(self, rate: int, query: Any, producer: Producer, source: str, arrivals: Arrivals) -> Delays:
        """Events when they are due, however long sending takes: a slow moment must not make the load lighter."""
        sent = []
        begin = time.monotonic()
        for number in range(int(self._seconds * rate)):
            time.sleep(max(0, begin + number / rate - time.monotonic()))
            sent.append(self._event(producer, source))
        self._wait(query, lambda: sent[-1] in arrivals.delays_ms)
        cut = quantiles([arrivals.delays_ms[event] for event in sent if event in arrivals.delays_ms], n=100)
        return [cut[49], cut[98]]

    def _warm(self, query: Any, producer: Producer, source: str, arrivals: Arrivals) -> None:
        """Events until the query answers, and as long again as is measured: the JVM compiles meanwhile."""
        begin = time.monotonic()

        def warm() -> bool:
            self._event(producer, source)
            return len(arrivals.delays_ms) > 50 and time.monotonic() - begin > self._seconds

        self._wait(query, warm)

    @staticmethod
    def _event(producer: Producer, source: str) -> int:
        """Sends the present moment. Stateful queries keep the greatest, so every event gives an answer."""
        now = time.monotonic_ns()
        producer.produce(source, str(now), f"match {now % 7}")
        producer.poll(0)
        return now

    @staticmethod
    def _wait(query: Any, condition: Callable[[], bool]) -> None:
        begin = time.monotonic()
        while not condition():
            if query.exception() is not None:
                raise query.exception()
            if time.monotonic() - begin > SETTLE_S:
                raise TimeoutError("the query does not answer")
            time.sleep(WARM_PAUSE_S)


def main() -> None:
    mode, bootstrap, *numbers = sys.argv[1:]
    cluster = Cluster(bootstrap)
    if mode == "rows":
        small, large, rounds = map(int, numbers)
        with session(2) as spark:
            figures = Rows(spark, cluster).run(small, large, rounds)
    else:
        # An aggregate in real time holds the slots of both its stages all the time.
        with session(4) as spark:
            latency = Latency(spark, cluster, float(numbers[0]))
            figures = latency.micro_batches() if mode == "latency" else latency.real_time()
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
