"""confluent-kafka as a load: a program of its own, so that neither its start nor its memory is the bench's.

    python -m bench.confluent_client produce BOOTSTRAP TOPIC RECORDS BYTES
    python -m bench.confluent_client consume BOOTSTRAP TOPIC RECORDS
    python -m bench.confluent_client latency BOOTSTRAP TOPIC RATE SECONDS
    python -m bench.confluent_client busy-latency BOOTSTRAP TOPIC RATE SECONDS

Between two records, the client of `latency` sleeps. That of `busy-latency` polls all the time and so takes a core from
the brokers.

The variable CLIENT_OPTIONS may contain further settings, as JSON.

Prints one JSON object. A record that is not acknowledged, or not there to be consumed, ends the program with
1.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

CHUNK = 1000
OPTIONS: dict[str, str] = json.loads(os.environ.get("CLIENT_OPTIONS", "{}"))


class Acks:
    def __init__(self) -> None:
        self.good = 0
        self.bad = 0

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.good += 1
        else:
            self.bad += 1


def produce(bootstrap: str, topic: str, records: int, size: int) -> dict[str, float]:
    """As many records as the client can send; only the last chunk is counted by callbacks, flush proves the
    rest.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 400_000,
            "delivery.report.only.error": True,
            **OPTIONS,
        }
    )
    failed = Acks()
    payload = os.urandom(size)
    producer.list_topics(topic)
    begin = time.monotonic()
    for _ in range(0, records, CHUNK):
        chunk = [{"value": payload} for _ in range(CHUNK)]
        while chunk:
            producer.produce_batch(topic, chunk, on_delivery=failed)
            chunk = [{"value": payload} for message in chunk if "_error" in message]
            producer.poll(0.01 if chunk else 0)
    left = producer.flush(60)
    seconds = time.monotonic() - begin
    if left or failed.bad:
        raise SystemExit(f"{left + failed.bad} of {records} records were not acknowledged")
    return {
        "seconds": seconds,
        "records_per_s": records / seconds,
        "mb_per_s": records * size / seconds / 1e6,
    }


def consume(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 10,
            "queued.min.messages": 500_000,
            **OPTIONS,
        }
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    begin = time.monotonic()
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    seen, size, silent = 0, 0, 0
    while seen < records and silent < 20:
        messages = consumer.consume(10_000, timeout=0.5)
        silent = 0 if messages else silent + 1
        seen += len(messages)
        size += sum(map(len, messages))
    seconds = time.monotonic() - begin
    consumer.close()
    if seen < records:
        raise SystemExit(f"only {seen} of {records} records arrived")
    return {"seconds": seconds, "records_per_s": seen / seconds, "mb_per_s": size / seconds / 1e6}


@contextmanager
def polling(producer: Producer) -> Iterator[None]:
    """Deliver reports in a thread, which waits for them."""
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def latency(bootstrap: str, topic: str, rate: int, seconds: float, *, busy: bool = False) -> dict[str, float]:
    """Open loop: each record is due at its time, and its latency counts from there."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **OPTIONS})
    producer.list_topics(topic)
    samples: list[float] = []
    failures: list[KafkaError] = []
    payload = os.urandom(100)
    warmup = rate // 2
    begin = time.monotonic()

    def due_at(number: int) -> float:
        return begin + number / rate

    def send(number: int) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)
            elif number >= warmup:
                samples.append((time.monotonic() - due_at(number)) * 1e3)

        producer.produce(topic, payload, on_delivery=delivered)

    with nullcontext() if busy else polling(producer):
        for number in range(warmup + int(rate * seconds)):
            while (wait := due_at(number) - time.monotonic()) > 0:
                if busy:
                    producer.poll(0)
                else:
                    time.sleep(wait)
            send(number)
        producer.flush(30)
    if failures:
        raise SystemExit(f"not acknowledged: {failures[0]}")
    samples.sort()

    def percentile(part: float) -> float:
        return samples[min(len(samples) - 1, round(part * (len(samples) - 1)))]

    return {"p50_ms": percentile(0.5), "p99_ms": percentile(0.99), "p999_ms": percentile(0.999)}


def main(action: str, bootstrap: str, topic: str, *numbers: str) -> None:
    if action == "produce":
        result = produce(bootstrap, topic, int(numbers[0]), int(numbers[1]))
    elif action == "consume":
        result = consume(bootstrap, topic, int(numbers[0]))
    else:
        busy = action == "busy-latency"
        result = latency(bootstrap, topic, int(numbers[0]), float(numbers[1]), busy=busy)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
