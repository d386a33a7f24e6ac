"""Families about partitions, topics and the cluster, as Prometheus's parser reads them."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.partition_metrics import cluster_families, partition_families, topic_families
from ottla.broker.metrics.text import SAMPLES_PER_PIECE
from ottla.metadata.image import BrokerImage, Endpoint
from ottla.replication.traffic import Traffic

Samples = dict[str, dict[tuple[str, ...], float]]


def partition(index: int, *, leads: bool = True, isr: tuple[int, ...] = (1, 2), topic: str = "t") -> Any:
    return SimpleNamespace(
        topic=topic,
        index=index,
        leads=leads,
        leader=1,
        replicas=(2, 1),
        isr=isr,
        min_in_sync=2,
        high_watermark=10,
        log=SimpleNamespace(log_start_offset=3, size_bytes=100),
        traffic=Traffic(),
    )


def parsed(pieces: Any) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families("".join(pieces)):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_only_the_leader_describes_a_partition() -> None:
    found = parsed(partition_families([partition(0, isr=(1,)), partition(1, leads=False)]))
    prefix = "kafka_topic_partition"
    values = {name: each for name, each in found.items() if name.startswith(prefix)}
    assert {name.removeprefix(f"{prefix}_"): each[("t", "0")] for name, each in values.items()} == {
        "current_offset": 10,
        "oldest_offset": 3,
        "leader": 1,
        "replicas": 2,
        "in_sync_replica": 1,
        "leader_is_preferred": 0,
        "under_replicated_partition": 1,
    }
    assert all(list(each) == [("t", "0")] for each in values.values())
    assert found["kafka_cluster_partition_underminisr"] == {("t", "0"): 1}
    assert found["kafka_cluster_partition_atminisr"] == {("t", "0"): 0}
    assert found["kafka_log_log_size"] == {("t", "0"): 100, ("t", "1"): 100}


def test_many_partitions_are_written_in_small_pieces() -> None:
    pieces = list(partition_families([partition(index) for index in range(1_000)]))
    assert max(piece.count("\n") for piece in pieces) <= SAMPLES_PER_PIECE + 2
    assert pieces[0] == "", "the labels are made with breaks"


def test_counters_are_summed_by_topic() -> None:
    first, second, other = partition(0), partition(1), partition(0, topic="u")
    first.traffic.messages_in, second.traffic.messages_in = 3, 4
    other.traffic.failed_fetch_requests = 5
    found = parsed(topic_families([first, second, other]))
    prefix = "kafka_server_brokertopicmetrics"
    assert found[f"{prefix}_messagesin_total"] == {("t",): 7, ("u",): 0}
    assert found[f"{prefix}_failedfetchrequests_total"] == {("t",): 0, ("u",): 5}


def test_one_broker_describes_the_cluster() -> None:
    brokers = {
        number: BrokerImage(
            broker_id=number,
            epoch=1,
            incarnation_id=uuid.uuid4(),
            endpoints=(Endpoint("PLAINTEXT", "h", 9000 + number),),
            fenced=number == 1,
        )
        for number in (1, 2, 3)
    }
    topic = SimpleNamespace(name="t", partitions={0: SimpleNamespace(leader=3), 1: SimpleNamespace(leader=2)})
    image: Any = SimpleNamespace(brokers=brokers, topics=SimpleNamespace(by_id={1: topic}))
    found = [parsed(cluster_families(image, number)) for number in (1, 2, 3)]
    assert found[0] == {}
    assert found[1] == {
        "kafka_brokers": {(): 2},
        "kafka_broker_info": {("2", "h:9002"): 1, ("3", "h:9003"): 1},
    }
    assert found[2] == {"kafka_topic_partitions": {("t",): 2}}
