"""Mission, seed A: a broker breaks and the scoreboard goes on; replication factor 3."""

from __future__ import annotations

import pytest

from ottla.base.ids import TopicPartition
from ottla.testing import Cluster
from tests.fault.load import ConfluentLoad
from tests.support.clients import Publisher, fresh, read_all
from tests.support.replicated import GroupReader, log_bytes, read_values, replicated_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")
PARTITIONS = 3
SOME = 200


def test_A4_a_broker_breaks_and_producing_and_consuming_go_on(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches", PARTITIONS)
    load = ConfluentLoad("producer", cluster.bootstrap, topic, PARTITIONS)
    reader = GroupReader(cluster.bootstrap, topic, fresh("mobiles"))
    load.start()
    wait_until(lambda: load.acknowledged > SOME and reader.count > SOME, "the first records")

    broken = cluster.leader(topic, 0)
    cluster.kill(broken)
    cluster.wait_leader(topic, 0, other_than=broken)
    acknowledged, seen = load.acknowledged, reader.count
    wait_until(
        lambda: load.acknowledged > acknowledged + SOME and reader.count > seen + SOME,
        "producing and consuming to go on without the broker",
    )

    history = load.stop()
    wait_until(lambda: reader.count >= history.acknowledged_count, "the reader to see every record")
    history.extend(reader.close())
    for partition in range(PARTITIONS):
        for message in read_all(cluster.bootstrap, topic, partition):
            history.read("all", TopicPartition(topic, partition), message.offset(), message.value())
    assert history.acknowledged_count > 2 * SOME
    assert history.anomalies() == []


def test_A7_replication_factor_3_is_the_default_and_durable(cluster: Cluster) -> None:
    topic = fresh("matches")
    events = [f"Score {number}-46".encode() for number in range(40)]
    Publisher(cluster.bootstrap).send(topic, [{"value": event} for event in events])
    partition = cluster.partition(topic, 0)
    assert partition is not None
    assert sorted(partition.replica_nodes) == [0, 1, 2], "created by the producer, with three replicas"
    for node_id in cluster.brokers:
        wait_until(lambda node_id=node_id: events[-1] in log_bytes(cluster, node_id, topic), "all replicas")

    cluster.kill(partition.leader_id)
    assert read_values(cluster, topic) == events
    cluster.kill_all()
    cluster.restart_all()
    cluster.wait_leader(topic)
    assert read_values(cluster, topic) == events
    cluster.wait_in_sync(topic, cluster.brokers)
