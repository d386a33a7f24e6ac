"""What the test fixtures cost: start, reset between tests, and requests through the proxy. Prints one line each.

python -m bench.fixtures_cost
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from ottla.local.broker_process import BrokerProcess
from ottla.testing.fixtures.brokers import OwnBrokers
from ottla.testing.fixtures.environment import Ottla

ROUNDS = 5
REQUESTS = 1_000
RECORDS = 200_000
TOPIC = "measured"


def latency_ms(bootstrap: str) -> float:
    """The median of records that are sent one after the other."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(TOPIC)
    found = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        producer.produce(TOPIC, b"x" * 100)
        producer.flush()
        found.append(1000 * (time.perf_counter() - started))
    return statistics.median(found)


def records_per_second(bootstrap: str) -> float:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": RECORDS}
    producer = Producer(settings)
    producer.list_topics(TOPIC)
    started = time.perf_counter()
    for _ in range(RECORDS):
        producer.produce(TOPIC, b"x" * 100)
    producer.flush()
    return RECORDS / (time.perf_counter() - started)


def measure_starts() -> None:
    starts, resets = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        made = Ottla(OwnBrokers({}, 1))
        made.create_topic(TOPIC)
        starts.append(time.perf_counter() - started)
        for number in range(20):
            made.produce(made.create_topic(f"topic-{number}"), "x")
            started = time.perf_counter()
            made.reset()
            resets.append(1000 * (time.perf_counter() - started))
        made.close()
    print(f"ready with a topic: median {statistics.median(starts):.2f} s, at best {min(starts):.2f} s")
    print(f"reset of one topic: median {statistics.median(resets):.1f} ms, at best {min(resets):.1f} ms")


def measure_proxy() -> None:
    made = Ottla(OwnBrokers({}, 1))
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data") as direct:
        addresses = {"direct": direct.bootstrap, "proxy": made.bootstrap}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in addresses}
        for _ in range(ROUNDS):
            for name, address in addresses.items():
                found[name].append((latency_ms(address), records_per_second(address)))
    made.close()
    for name, results in found.items():
        latency, rate = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"{name}: {latency:.2f} ms for a record that is waited for, {rate:,.0f} records/s of 100 bytes")


if __name__ == "__main__":
    measure_starts()
    measure_proxy()
