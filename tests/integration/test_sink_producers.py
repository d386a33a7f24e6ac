"""Producers that the Spark sink keeps for the next task, on a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from ottla.base.ids import TopicPartition
from ottla.client.raw import Cluster, RawProducer, cluster_for
from ottla.local.broker_process import BrokerProcess
from ottla.records import columns
from ottla.records.columns import BinaryColumn
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.producer_cache import ProducerCache
from tests.support.clients import create_topic, fresh, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable


def cluster_of(broker: BrokerProcess, topic: str) -> Cluster:
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "deliveryGuarantee": "at-least-once"},
        streaming=True,
    )
    return cluster_for(options.settings)


def send(producer: RawProducer, cluster: Cluster, topic: str, values: Iterable[bytes]) -> None:
    for value in values:
        column = BinaryColumn(b"\0\0\0\0" + len(value).to_bytes(4, "little"), value, None, 0, 0)
        batches = columns.encode(column, 1, timestamp_ms=cluster.clock.now_ms())
        producer.send(TopicPartition(topic, 0), batches)
    producer.flush()


def test_the_next_task_continues_with_the_same_producer(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("kept"))
    cluster, kept = cluster_of(broker, topic), ProducerCache()
    first = kept.acquire(cluster)
    send(first, cluster, topic, (b"a", b"b"))
    kept.release(cluster, first)
    second = kept.acquire(cluster)
    send(second, cluster, topic, (b"c",))
    assert second.identity == first.identity
    assert [message.value() for message in read_all(broker.bootstrap, topic, 0)] == [b"a", b"b", b"c"]


def test_a_producer_that_was_not_given_back_is_not_used_again(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("failed"))
    cluster, kept = cluster_of(broker, topic), ProducerCache()
    failed, other = kept.acquire(cluster), kept.acquire(cluster)
    assert failed.identity.producer_id != other.identity.producer_id
    kept.release(cluster, other)
    assert kept.acquire(cluster) is other
    assert kept.acquire(cluster) is not other, "a task has it for itself"


def test_a_topic_made_anew_takes_what_a_kept_producer_writes(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("anew"))
    cluster, kept = cluster_of(broker, topic), ProducerCache()
    producer = kept.acquire(cluster)
    send(producer, cluster, topic, (b"a", b"b"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result()
    create_topic(broker.bootstrap, topic)
    send(producer, cluster, topic, (b"c",))
    assert [message.value() for message in read_all(broker.bootstrap, topic, 0)] == [b"c"]
