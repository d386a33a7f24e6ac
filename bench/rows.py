"""What is measured: one function per row, and the targets each figure is held to.

A row returns figures by name. A target compares a figure of Ottla with Apache Kafka's of the same run (or,
where it says so, with a bare loop of write + fdatasync on the same disk), once under Kafka's flush policy and
once synced.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import group_rows
from bench.session import Metrics, Session

KB64, MB1 = 65536, 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """At least (or at most) this many times the other's figure. None: reported, not held to anything."""

    policy: float | None = None
    synced: float | None = None
    at_most: bool = False
    synced_beside_disk: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    title: str
    run: Callable[[Session], Metrics]
    figures: dict[str, Target] = field(default_factory=dict)
    quick: bool = True
    needs_groups: bool = False


def start(session: Session) -> Metrics:
    return {"start s": session.peer.start_seconds, "idle RSS MB": session.idle_rss_mb()}


def small_requests(connections: int, inflight: int) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        topic = session.topic("small", 4)
        result = session.load(
            "produce",
            topic,
            4,
            connections=connections,
            inflight=inflight,
            seconds=session.scale.seconds,
            bytes_max=session.scale.bytes_max,
        )
        return {
            "requests/s": result["requests_per_s"],
            "requests/CPU-s": result["requests_per_cpu_s"],
            "p99 ms": result["p99_ms"],
        }

    return run


def produce_batches(batch_bytes: int, inflight: int) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        result = session.load(
            "produce",
            session.topic(f"batches-{batch_bytes}", 4),
            4,
            connections=4,
            inflight=inflight,
            batch_bytes=batch_bytes,
            record_bytes=1000,
            seconds=session.scale.seconds,
            bytes_max=session.scale.bytes_max,
        )
        return {"MB/s": result["mb_per_s"], "MB/CPU-s": result["mb_per_cpu_s"]}

    return run


def fetch_batches(batch_bytes: int, inflight: int) -> Callable[[Session], Metrics]:
    """Reads the topic of the produce row; 256 MB are written first when that row was not run."""

    def run(session: Session) -> Metrics:
        topic = f"batches-{batch_bytes}"
        shape = {"connections": 4, "batch_bytes": batch_bytes, "record_bytes": 1000}
        session.load(
            "produce",
            session.topic(topic, 4),
            4,
            inflight=inflight,
            warmup=0.3,
            bytes_max=256_000_000,
            **shape,
        )
        result = session.load("fetch", topic, 4, warmup=1.5, seconds=session.scale.seconds, **shape)
        return {"MB/s": result["mb_per_s"], "MB/CPU-s": result["mb_per_cpu_s"]}

    return run


def paced(session: Session) -> Metrics:
    topic = session.topic("paced", 1)
    result = session.load("pace", topic, 1, rate=1000, warmup=1, seconds=session.scale.seconds * 2)
    return {"p50 ms": result["p50_ms"], "p99 ms": result["p99_ms"], "p99.9 ms": result["p999_ms"]}


def paced_confluent(session: Session) -> Metrics:
    topic = session.topic("paced-confluent", 1)
    result = session.confluent("busy-latency", topic, 1000, session.scale.seconds * 2)
    return {"p50 ms": result["p50_ms"], "p99 ms": result["p99_ms"], "p99.9 ms": result["p999_ms"]}


def _records(session: Session, size: int) -> int:
    return session.scale.records_small if size <= 100 else session.scale.records_large


def java(size: int, partitions: int) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        topic = session.topic(f"java-{size}-{partitions}", partitions)
        result = session.java_produce(topic, _records(session, size), size)
        return {"records/s": result["records_per_s"], "broker CPU s": result["broker_cpu_s"]}

    return run


def java_consume(session: Session) -> Metrics:
    topic = session.topic("java-100-12", 12)
    records = session.scale.records_small
    session.java_produce(topic, records, 100)
    return {"records/s": session.java_consume(topic, records)["records_per_s"]}


def confluent(size: int, partitions: int) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        topic = session.topic(f"confluent-{size}-{partitions}", partitions)
        records = _records(session, size)
        wrote = session.confluent("produce", topic, records, size)
        read = session.confluent("consume", topic, records)
        session.drop(topic)
        return {
            "produced/s": wrote["records_per_s"],
            "consumed/s": read["records_per_s"],
            "broker CPU s": wrote["broker_cpu_s"] + read["broker_cpu_s"],
        }

    return run


def thousand_partitions(session: Session) -> Metrics:
    begin = time.monotonic()
    topic = session.topic("thousand", 1000)
    created = time.monotonic() - begin
    result = session.load(
        "produce", topic, 1000, connections=4, inflight=16, seconds=session.scale.seconds, warmup=0
    )
    figures = {
        "served s": created + result["warmup_s"],
        "requests/s": result["requests_per_s"],
        "RSS MB": session.peer.rss_bytes() / 1e6,
    }
    session.drop(topic)
    return figures


NONE = Target()
REAL = Target(policy=1, synced=0.7)
FETCH = {"MB/s": Target(1, 1), "MB/CPU-s": Target(1, 1)}
LATENCY = {"p50 ms": NONE, "p99 ms": Target(0.7, 1.5, at_most=True), "p99.9 ms": NONE}
CONFLUENT = {"produced/s": REAL, "consumed/s": REAL, "broker CPU s": NONE}
JAVA = {"records/s": REAL, "broker CPU s": NONE}


def _requests(policy: float | None, synced: float | None) -> dict[str, Target]:
    return {"requests/s": Target(policy, synced), "requests/CPU-s": NONE, "p99 ms": NONE}


def _batches(rate: float) -> dict[str, Target]:
    return {"MB/s": Target(rate, 0.8, synced_beside_disk=True), "MB/CPU-s": Target(2, None)}


START = {"start s": Target(0.15, 0.15, at_most=True), "idle RSS MB": Target(0.15, 0.15, at_most=True)}
OWNED = {
    "own s": Target(1, 1, at_most=True),
    "again after a kill s": Target(1, 1, at_most=True),
}
TRANSACTIONS = {"transactions/s": REAL, "broker CPU s": NONE}
MEMBERS = {"heartbeats/s, 100 members": NONE, "heartbeats/s, 1000 members": NONE, "KB a member": NONE}
MANY = {"served s": NONE, "requests/s": NONE, "RSS MB": NONE}

ROWS = (
    Row("start", "start to first ack, idle memory", start, START),
    Row("small-4x64", "produce 100 B a request, 4 x 64", small_requests(4, 64), _requests(8, 3)),
    Row("small-32x1", "produce 100 B a request, 32 x 1", small_requests(32, 1), _requests(2, 0.5)),
    Row("small-1x1", "produce 100 B a request, 1 x 1", small_requests(1, 1), _requests(None, None)),
    Row("produce-64k", "produce 64 KB batches, 4 x 8", produce_batches(KB64, 8), _batches(2)),
    Row("fetch-64k", "fetch 64 KB, 4 x 1", fetch_batches(KB64, 8), FETCH),
    Row("produce-1m", "produce 1 MB batches, 4 x 4", produce_batches(MB1, 4), _batches(1)),
    Row("fetch-1m", "fetch 1 MB, 4 x 1", fetch_batches(MB1, 4), FETCH),
    Row("latency", "produce at 1,000/s, raw", paced, LATENCY),
    Row("latency-confluent", "produce at 1,000/s, confluent-kafka", paced_confluent, LATENCY),
    Row("confluent-100-1", "confluent-kafka 100 B, 1 partition", confluent(100, 1), CONFLUENT, quick=False),
    Row("confluent-100-12", "confluent-kafka 100 B, 12 partitions", confluent(100, 12), CONFLUENT),
    Row("confluent-1k-1", "confluent-kafka 1 KB, 1 partition", confluent(1000, 1), CONFLUENT, quick=False),
    Row(
        "confluent-1k-12", "confluent-kafka 1 KB, 12 partitions", confluent(1000, 12), CONFLUENT, quick=False
    ),
    Row("java-100-1", "ProducerPerformance 100 B, 1 partition", java(100, 1), JAVA, quick=False),
    Row("java-100-12", "ProducerPerformance 100 B, 12 partitions", java(100, 12), JAVA),
    Row("java-1k-1", "ProducerPerformance 1 KB, 1 partition", java(1000, 1), JAVA, quick=False),
    Row("java-1k-12", "ProducerPerformance 1 KB, 12 partitions", java(1000, 12), JAVA, quick=False),
    Row(
        "java-consume",
        "ConsumerPerformance 100 B, 12 partitions",
        java_consume,
        {"records/s": REAL},
        quick=False,
        needs_groups=True,
    ),
    Row("partitions-1000", "1,000 partitions on one broker", thousand_partitions, MANY),
    Row("own-classic", "10 members own 100 partitions, classic", group_rows.own("classic"), OWNED),
    Row("own-consumer", "10 members own 100 partitions, consumer", group_rows.own("consumer"), OWNED),
    Row("commits", "offset commits, 16 connections", group_rows.commits, {"commits/s": REAL, "p99 ms": NONE}),
    Row("txn-1", "transactions of 1 record, 8 producers", group_rows.transactions(1), TRANSACTIONS),
    Row("txn-100", "transactions of 100 records, 8 producers", group_rows.transactions(100), TRANSACTIONS),
    Row("members", "one group of 100, of 1,000 members", group_rows.members, MEMBERS),
    Row("groups", "10,000 groups", group_rows.groups, {"commits/s": NONE, "KB a group": NONE}),
)
