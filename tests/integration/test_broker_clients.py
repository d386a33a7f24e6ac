"""The Python clients that people use, unmodified, on a real broker process."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, Reader, create_topic, fresh

TIMEOUT_S = 30


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_reads_what_it_wrote(broker: BrokerProcess, codec: str, idempotent: bool) -> None:
    topic = create_topic(broker.bootstrap, fresh("confluent"), partitions=3)
    settings: dict[str, object] = {"compression.type": codec, "enable.idempotence": idempotent}
    records = [{"key": f"k{n}".encode(), "value": f"v{n}".encode() * 20} for n in range(300)]
    sent = Publisher(broker.bootstrap, settings).send(topic, records)
    with Reader(broker.bootstrap, topic, range(3)) as reader:
        got = {(one.partition(), one.offset()): one.value() for one in reader.take(300)}
        assert got == {(one.partition, one.offset): one.value for one in sent}
        assert reader.nothing_more()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(broker: BrokerProcess, acks: str) -> None:
    topic = create_topic(broker.bootstrap, fresh("acks"))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "enable.idempotence": False})
    for number in range(50):
        producer.produce(topic, value=b"%d" % number)
    assert producer.flush(TIMEOUT_S) == 0
    with Reader(broker.bootstrap, topic, [0]) as reader:
        assert [one.value() for one in reader.take(50)] == [b"%d" % number for number in range(50)]


def test_a_missing_topic_is_created_when_a_client_produces_to_it(broker: BrokerProcess) -> None:
    topic = fresh("auto")
    Publisher(broker.bootstrap).send(topic, [{"value": b"first"}])
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(topic, TIMEOUT_S)
    assert len(metadata.topics[topic].partitions) == 1


def test_topics_are_created_grown_listed_and_deleted(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = create_topic(broker.bootstrap, fresh("admin"), partitions=2)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    partitions = admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    with pytest.raises(KafkaException) as twice:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    assert twice.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_offsets_are_listed_by_every_kind_of_question(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("offsets"))
    times = [1_000_000, 3_000_000, 2_000_000]
    publisher = Publisher(broker.bootstrap, {"linger.ms": 0})
    for time_ms in times:
        publisher.send(topic, [{"value": b"x", "timestamp": time_ms}])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def offset(spec: OffsetSpec) -> int:
        place = TopicPartition(topic, 0)
        return int(admin.list_offsets({place: spec})[place].result(TIMEOUT_S).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(2_000_000)) == 1
    assert offset(OffsetSpec.for_timestamp(4_000_000)) == -1


def test_records_are_deleted_up_to_an_offset(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("delete"))
    Publisher(broker.bootstrap).send(topic, [{"value": b"%d" % number} for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    place = TopicPartition(topic, 0, 4)
    deleted = admin.delete_records([place])[place].result(TIMEOUT_S)
    assert deleted.low_watermark == 4
    with Reader(broker.bootstrap, topic, [0], start=4) as reader:
        assert reader.take(1)[0].offset() == 4


def test_the_cluster_describes_itself(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [node.port for node in cluster.nodes] == [broker.port]
    assert len(cluster.cluster_id) == 22


def test_a_waiting_consumer_gets_a_record_when_it_is_produced(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("waiting"))
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(0.5) is None
    Publisher(broker.bootstrap).send(topic, [{"value": b"news"}])
    message = consumer.poll(5)
    assert message is not None
    assert message.value() == b"news"
    consumer.close()


def test_aiokafka(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("aiokafka"), partitions=2)

    async def scenario() -> list[bytes | None]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
        await producer.start()
        sending = [
            await producer.send(topic, value=b"%03d" % number, partition=number % 2) for number in range(100)
        ]
        await asyncio.gather(*sending)
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([AioTopicPartition(topic, 0), AioTopicPartition(topic, 1)])
        got = [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(100)]
        await consumer.stop()
        return got

    assert sorted(asyncio.run(scenario()), key=str) == [b"%03d" % number for number in range(100)]


def test_kafka_python(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("kafkapython"))
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for number in range(100):
        producer.send(topic, value=b"%d" % number)
    producer.flush(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    consumer.assign([KafkaTopicPartition(topic, 0)])
    got = [next(consumer).value for _ in range(100)]
    consumer.close()
    assert got == [b"%d" % number for number in range(100)]
