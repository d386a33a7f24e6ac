"""Families about partitions and topics, from the partitions of this broker and the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.metrics.text import BREAK, SAMPLES_PER_PIECE, escape, family, labels

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.replication.partition import Partition


def partition_families(partitions: list[Partition]) -> Iterator[str]:
    """The state of the partitions that this broker leads, and the sizes of all its logs."""
    named: list[tuple[str, Partition]] = []
    for each in partitions:
        named.append((_labels(each), each))
        if len(named) % SAMPLES_PER_PIECE == 0:
            yield BREAK
    led = [(label, each) for label, each in named if each.leads]

    def of_led(name: str, text: str, value: Callable[[Partition], float]) -> Iterator[str]:
        return family(name, "gauge", text, ((label, value(each)) for label, each in led))

    prefix = "kafka_topic_partition"
    yield from of_led(f"{prefix}_current_offset", "End of the partition.", lambda one: one.high_watermark)
    yield from of_led(
        f"{prefix}_oldest_offset", "Start of the partition.", lambda one: one.log.log_start_offset
    )
    yield from of_led(f"{prefix}_leader", "Leader of the partition.", lambda one: one.leader)
    yield from of_led(f"{prefix}_replicas", "Replicas of the partition.", lambda one: len(one.replicas))
    yield from of_led(
        f"{prefix}_in_sync_replica", "In-sync replicas of the partition.", lambda one: len(one.isr)
    )
    yield from of_led(
        f"{prefix}_leader_is_preferred",
        "1 if the first replica leads the partition.",
        lambda one: one.leader == one.replicas[0],
    )
    yield from of_led(
        f"{prefix}_under_replicated_partition",
        "1 if a replica of the partition is not in sync.",
        lambda one: len(one.isr) < len(one.replicas),
    )
    prefix = "kafka_cluster_partition"
    yield from of_led(
        f"{prefix}_atminisr",
        "1 if as many replicas are in sync as acks=all requires.",
        lambda one: len(one.isr) == one.min_in_sync,
    )
    yield from of_led(
        f"{prefix}_underminisr",
        "1 if fewer replicas are in sync than acks=all requires.",
        lambda one: len(one.isr) < one.min_in_sync,
    )
    yield from of_led(f"{prefix}_replicascount", "Replicas of the partition.", lambda one: len(one.replicas))
    sizes = ((label, each.log.size_bytes) for label, each in named)
    yield from family("kafka_log_log_size", "gauge", "Bytes of the log of this replica.", sizes)


def _labels(partition: Partition) -> str:
    return f'{{topic="{escape(partition.topic)}",partition="{partition.index}"}}'


_COUNTERS = (
    ("messagesin", "Records that producers have sent.", "messages_in"),
    ("bytesin", "Bytes of batches that producers have sent.", "bytes_in"),
    ("bytesout", "Bytes of batches that consumers have fetched.", "bytes_out"),
    ("totalproducerequests", "Partitions in Produce requests.", "produce_requests"),
    ("totalfetchrequests", "Partitions in Fetch requests of consumers.", "fetch_requests"),
    ("failedproducerequests", "Partitions in Produce requests that were refused.", "failed_produce_requests"),
    (
        "failedfetchrequests",
        "Partitions in Fetch requests of consumers that were refused.",
        "failed_fetch_requests",
    ),
)


def topic_families(partitions: list[Partition]) -> Iterator[str]:
    """What clients have sent and fetched, by topic."""
    by_topic: dict[str, list[Partition]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(each)
    named = [(labels(topic=topic), theirs) for topic, theirs in by_topic.items()]
    for name, text, field in _COUNTERS:
        samples = ((label, sum(getattr(each.traffic, field) for each in theirs)) for label, theirs in named)
        yield from family(f"kafka_server_brokertopicmetrics_{name}_total", "counter", text, samples)


def cluster_families(image: MetadataImage, node_id: int) -> Iterator[str]:
    """The brokers of the cluster, by the first active broker; the topics, by the leader of their first partition."""
    active = [each for each in image.brokers.values() if not each.fenced]
    if active and min(each.broker_id for each in active) == node_id:
        yield from family("kafka_brokers", "gauge", "Active brokers of the cluster.", [("", len(active))])
        infos = [
            (labels(id=each.broker_id, address=f"{each.endpoints[0].host}:{each.endpoints[0].port}"), 1)
            for each in active
            if each.endpoints
        ]
        yield from family("kafka_broker_info", "gauge", "An active broker.", infos)
    counts = (
        (labels(topic=topic.name), len(topic.partitions))
        for topic in list(image.topics.by_id.values())
        if 0 in topic.partitions and topic.partitions[0].leader == node_id
    )
    yield from family("kafka_topic_partitions", "gauge", "Partitions of the topic.", counts)
