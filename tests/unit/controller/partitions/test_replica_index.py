"""The index follows the image. `ControllerBench.apply` compares it with a new one after each change."""

from __future__ import annotations

from ottla.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from tests.support.controller import TOPIC_ID, ControllerBench, cluster
from tests.support.metadata import topic_records


def keys(bench: ControllerBench, broker_id: int) -> list[int]:
    return [index for _, index in bench.controller.index.replicas_of((broker_id,))]


def test_partitions_of_brokers() -> None:
    bench = cluster(3, [[1, 2], [2, 3], [3, 1]])
    assert [keys(bench, broker_id) for broker_id in (1, 2, 3, 4)] == [[0, 2], [0, 1], [1, 2], []]
    assert len(bench.controller.index.replicas_of((1, 2))) == 3
    assert dict(bench.controller.index.preferred_leaders()) == {1: 1, 2: 1, 3: 1}


def test_changes_of_replicas_and_leaders() -> None:
    bench = cluster(3, [[1, 2], [2, 3]])
    index = bench.controller.index
    assert index.leads(1)
    bench.replay(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=-1))
    assert not index.leads(1)
    assert list(index.leaderless) == list(index.imbalanced) == [(TOPIC_ID, 0)]
    change = PartitionChangeRecord(
        topic_id=TOPIC_ID, partition_id=0, leader=3, replicas=[3, 2], adding_replicas=[3]
    )
    bench.replay(change)
    assert list(index.leaderless) == list(index.imbalanced) == []
    assert list(index.reassigning) == [(TOPIC_ID, 0)]
    assert keys(bench, 1) == []


def test_topics_are_created_and_deleted() -> None:
    bench = cluster(3, [[1, 2]])
    bench.replay(*topic_records("u", [[3, 1]]))
    assert len(bench.controller.index.replicas_of((1,))) == 2
    bench.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert len(bench.controller.index.replicas_of((1,))) == 1
    assert not bench.controller.index.leads(1)
    assert bench.controller.index.leads(3)
