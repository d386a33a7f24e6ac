"""What metrics cost: the longest slice of a scrape of many partitions, and the counters of a request.

    python -m bench.metrics_cost [PARTITIONS]

The times are those of the processor, so that other programs do not disturb them.
"""

from __future__ import annotations

import statistics
import sys
import time
import timeit
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ottla.broker.metrics.group_lag import GroupPartition
from ottla.broker.metrics.group_metrics import group_families
from ottla.broker.metrics.partition_metrics import partition_families, topic_families
from ottla.broker.metrics.request_times import RequestTimes, ResponseTimer
from ottla.replication.traffic import Traffic

SLICE_S = 0.0005


def partition(topic: str, index: int) -> Any:
    log = SimpleNamespace(log_start_offset=0, size_bytes=1 << 20)
    return SimpleNamespace(
        topic=topic,
        index=index,
        log=log,
        leads=True,
        leader=1,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
        min_in_sync=2,
        high_watermark=10**6,
        traffic=Traffic(),
    )


def slices_ms(pieces: Iterator[str]) -> tuple[list[float], int]:
    """The processor time of each slice, and the size of the text."""
    found, size = [], 0
    started = time.thread_time()
    for piece in pieces:
        size += len(piece)
        spent = time.thread_time() - started
        if spent >= SLICE_S:
            found.append(1000 * spent)
            started = time.thread_time()
    return found, size


def measure_scrape(count: int) -> None:
    partitions = [partition(f"topic-{number // 100}", number % 100) for number in range(count)]
    lags = [GroupPartition("group", each.topic, each.index, 5, 10, 1.5) for each in partitions]

    def write() -> Iterator[str]:
        yield from topic_families(partitions)
        yield from partition_families(partitions)
        yield from group_families(lags, {"group": 3}, "cluster")

    found, size = slices_ms(write())
    print(
        f"scrape of {count} partitions: {size / 1e6:.1f} MB in {sum(found):.0f} ms, {len(found)} slices, "
        f"median {statistics.median(found):.1f} ms, longest {max(found):.1f} ms"
    )


def measure_counters() -> None:
    rounds = 1_000_000
    traffic = Traffic()

    def count() -> None:
        traffic.produce_requests += 1
        traffic.messages_in += 10
        traffic.bytes_in += 1000

    empty = timeit.timeit(lambda: None, number=rounds, timer=time.thread_time)
    spent = timeit.timeit(count, number=rounds, timer=time.thread_time) - empty
    print(f"counters of a produced batch: {1e9 * spent / rounds:.0f} ns")
    timer = ResponseTimer(RequestTimes(time.monotonic))

    def timed() -> None:
        timer.received(0)
        timer.sent()

    spent = timeit.timeit(timed, number=rounds // 10, timer=time.thread_time)
    print(f"time of a request, only with an endpoint: {1e10 * spent / rounds:.0f} ns")


if __name__ == "__main__":
    measure_scrape(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    measure_counters()
