"""Mission, seed B: who chooses the partition, and which order is promised."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from ottla.base.ids import TopicPartition
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.records.partitioner import partition_for_key
from ottla.testing.history import History
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic, fresh, read_all
from tests.support.proxy import CuttingProxy

PARTITIONS = 7
KEYS = [f"Canada vs USA {number}".encode() for number in range(9_900)] + [
    bytes([n]) * n for n in range(1, 101)
]


def test_B1_a_partition_given_in_the_record_is_taken(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("chosen"), partitions=4)
    records = [{"value": str(number), "key": b"same", "partition": number % 4} for number in range(20)]
    places = Publisher(broker.bootstrap).send(topic, records)
    assert [place.partition for place in places] == [number % 4 for number in range(20)]


def test_B1_for_10000_keys_every_client_chooses_the_same_partition(broker: BrokerProcess) -> None:
    expected = {key: partition_for_key(key, PARTITIONS) for key in KEYS}
    assert len(expected) == 10_000
    assert _confluent(broker.bootstrap) == expected
    assert asyncio.run(_aiokafka(broker.bootstrap)) == expected
    assert _kafka_python(broker.bootstrap) == expected


def _confluent(bootstrap: str) -> dict[bytes, int]:
    topic = create_topic(bootstrap, fresh("keys"), PARTITIONS)
    publisher = Publisher(bootstrap, {"partitioner": "murmur2_random"})
    places = publisher.send(topic, [{"key": key, "value": b""} for key in KEYS])
    return {key: place.partition for key, place in zip(KEYS, places, strict=True)}


async def _aiokafka(bootstrap: str) -> dict[bytes, int]:
    topic = create_topic(bootstrap, fresh("keys"), PARTITIONS)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        futures = [await producer.send(topic, key=key, value=b"") for key in KEYS]
        places = await asyncio.gather(*futures)
    return {key: place.partition for key, place in zip(KEYS, places, strict=True)}


def _kafka_python(bootstrap: str) -> dict[bytes, int]:
    topic = create_topic(bootstrap, fresh("keys"), PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    try:
        futures = [producer.send(topic, key=key, value=b"") for key in KEYS]
        return {key: future.get(30).partition for key, future in zip(KEYS, futures, strict=True)}
    finally:
        producer.close()


def test_B1_without_key_and_partition_records_are_spread(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("spread"), partitions=4)
    publisher = Publisher(broker.bootstrap, {"sticky.partitioning.linger.ms": 0})
    places = publisher.send(topic, [{"value": str(number)} for number in range(2_000)])
    counts = Counter(place.partition for place in places)
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 2_000 / 4 / 2, f"spread evenly, not {counts}"


def test_B1_a_custom_partitioner_works(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("custom"), partitions=4)

    def by_length(key: bytes, every: list[int], _available: list[int]) -> int:
        return sorted(every)[len(key) % len(every)]

    async def send() -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, partitioner=by_length) as producer:
            keys = [b"k" * size for size in range(1, 9)]
            return [(await producer.send_and_wait(topic, key=key, value=b"")).partition for key in keys]

    assert asyncio.run(send()) == [size % 4 for size in range(1, 9)]


def test_B2_order_is_kept_within_a_partition_only(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("order"), partitions=4)
    written = [{"value": str(number), "partition": number % 4} for number in range(1, 7)]
    Publisher(broker.bootstrap).send(topic, written)
    per_partition = [
        [int(m.value()) for m in read_all(broker.bootstrap, topic, number)] for number in range(4)
    ]
    assert per_partition == [[4], [1, 5], [2, 6], [3]]
    as_read = [number for partition in per_partition for number in partition]
    assert as_read != sorted(as_read), "read partition by partition, the order across them is another"


def test_B3_order_survives_retries_with_several_requests_in_flight(make_broker: MakeBroker) -> None:
    port = free_port()
    with CuttingProxy(port, every=15) as proxy:
        broker = make_broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}, port=port)
        proxied = f"127.0.0.1:{proxy.port}"
        topic = create_topic(broker.bootstrap, fresh("retried"), partitions=2)
        settings = {
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 5,
            "linger.ms": 1,
            "batch.num.messages": 10,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
        values = [f"{number:05d}".encode() for number in range(4_000)]
        history = History()
        for value in values:
            history.sent("producer", value)
        publisher = Publisher(proxied, settings)
        places = publisher.send(topic, [{"value": v, "partition": n % 2} for n, v in enumerate(values)])
        assert proxy.cuts >= 10, "answers must have been lost for this to mean anything"
        proxy.polite = True
        for place in places:
            history.acknowledged(place.value, TopicPartition(topic, place.partition), place.offset)
        for partition in range(2):
            for message in read_all(broker.bootstrap, topic, partition):
                history.read("reader", TopicPartition(topic, partition), message.offset(), message.value())
    assert history.anomalies() == []
