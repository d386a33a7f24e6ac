"""Mission, seeds D and E: leaders, followers, the ISR, acks, committed records, racks. On real broker processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from ottla.base.errors import ErrorCode
from ottla.testing import Cluster
from ottla.testing.proxy import Fault
from tests.mission.conftest import MakeCluster
from tests.support.clients import TIMEOUT_S, Publisher, Reader, create_topic
from tests.support.replicated import (
    assigned_topic,
    batch_of,
    log_bytes,
    produce_error,
    produce_to_leader,
    read_values,
    replicated_topic,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")


def isolate_from_followers(cluster: Cluster, leader: int) -> None:
    """Cut a leader off from the other brokers. Clients still reach it."""
    others = [each for each in cluster.brokers if each != leader]
    pairs = [(leader, other) for other in others] + [(other, leader) for other in others]
    cluster.network.set_faults(dict.fromkeys(pairs, Fault(cut=True)))


def kill_isolated(cluster: Cluster, leader: int) -> None:
    """End a leader that was cut off. What it has sent before its end is not delivered afterwards."""
    cluster.kill(leader)
    for other in cluster.brokers:
        if other != leader:
            cluster.network.reset(leader, other)
    cluster.reconnect(leader)


def test_D2_each_partition_has_one_leader_and_followers_in_sync(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches", 6)
    described = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic).topics[topic]
    leaders = [described.partitions[number].leader for number in range(6)]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
    for number in range(6):
        partition = described.partitions[number]
        assert sorted(partition.replicas) == [0, 1, 2]
        assert sorted(partition.isrs) == [0, 1, 2]
        assert partition.leader == partition.replicas[0]
    gone = (leaders[0] + 1) % 3
    cluster.kill(gone)
    cluster.wait_in_sync(topic, {0, 1, 2} - {gone}, 0)
    assert cluster.leader(topic, 0) == leaders[0], "the leader stays when a follower leaves the ISR"


def test_D3_acks_0_waits_for_no_broker(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    leader = cluster.leader(topic)
    delivered: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 0, "log_level": 0})
    producer.produce(topic, b"first", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    wait_until(lambda: read_values(cluster, topic) == [b"first"], "the first record")
    isolate_from_followers(cluster, leader)
    cluster.pause(leader)
    producer.produce(topic, b"lost", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None, None], "a success, although the leader does not even run"
    kill_isolated(cluster, leader)
    cluster.wait_leader(topic, other_than=leader)
    assert read_values(cluster, topic) == [b"first"]


def test_D3_acks_1_waits_for_the_leader_only(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    leader = produce_to_leader(cluster, topic, b"copied")
    isolate_from_followers(cluster, leader)
    assert produce_error(cluster, leader, topic, batch_of(b"lost"), acks=1) is ErrorCode.NONE
    kill_isolated(cluster, leader)
    cluster.wait_leader(topic, other_than=leader)
    assert read_values(cluster, topic) == [b"copied"], "the leader died right after its response"
    cluster.restart(leader)
    cluster.wait_in_sync(topic, cluster.brokers)
    assert read_values(cluster, topic) == [b"copied"], "the old leader has truncated its log"


def test_D3_acks_all_waits_for_the_in_sync_followers(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    expected = []
    for number in range(2):
        value = f"Score {number}".encode()
        leader = produce_to_leader(cluster, topic, value)
        cluster.kill(leader)
        expected.append(value)
        cluster.wait_leader(topic, other_than=leader)
        assert read_values(cluster, topic) == expected, "the leader died right after its response"
        cluster.restart(leader)
        cluster.wait_in_sync(topic, cluster.brokers)


@pytest.fixture
def racks(make_cluster: MakeCluster) -> Iterator[Cluster]:
    with make_cluster(brokers=6, racks=["R1", "R2"]) as cluster:
        yield cluster


def test_E1_six_brokers_in_two_racks_have_exactly_this_placement(racks: Cluster) -> None:
    topic = create_topic(racks.bootstrap, "matches", 10, {"min.insync.replicas": "1"}, replicas=3)
    described = AdminClient({"bootstrap.servers": racks.bootstrap}).list_topics(topic).topics[topic]
    order = [described.partitions[number].replicas for number in range(10)]
    table = {
        broker: [[f"P{p}" for p in range(10) if order[p][position] == broker] for position in range(3)]
        for broker in range(6)
    }
    assert table == {
        0: [["P0", "P6"], ["P5"], ["P4"]],
        3: [["P1", "P7"], ["P0", "P6"], ["P5"]],
        1: [["P2", "P8"], ["P1", "P7"], ["P0", "P6"]],
        4: [["P3", "P9"], ["P2", "P8"], ["P1", "P7"]],
        2: [["P4"], ["P3", "P9"], ["P2", "P8"]],
        5: [["P5"], ["P4"], ["P3", "P9"]],
    }
    Publisher(racks.bootstrap).send(topic, [{"value": b"%d" % p, "partition": p} for p in range(10)])
    for broker in (3, 4, 5):
        racks.kill(broker)
    for partition in range(10):
        wait_until(lambda p=partition: racks.leader(topic, p) in (0, 1, 2), "a leader in rack R1")
        assert read_values(racks, topic, partition) == [b"%d" % partition], (
            "no partition is lost with its rack"
        )


def test_E2_followers_copy_from_the_leader_and_clients_use_the_leader(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    Publisher(cluster.bootstrap).send(topic, [{"value": b"Score %d" % number} for number in range(50)])
    leader = cluster.leader(topic)
    original = log_bytes(cluster, leader, topic)
    assert b"Score 49" in original
    for follower in {0, 1, 2} - {leader}:
        wait_until(
            lambda follower=follower: log_bytes(cluster, follower, topic) == original, "an identical copy"
        )
        refused = produce_error(cluster, follower, topic, batch_of(b"wrong broker"))
        assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(read_values(cluster, topic)) == 50


@pytest.fixture(scope="module")
def impatient(make_cluster: MakeCluster) -> Iterator[Cluster]:
    """A cluster in which a follower that does not keep up leaves the ISR soon."""
    with make_cluster(brokers=3, config={"replica.lag.time.max.ms": "1500"}) as cluster:
        yield cluster


def test_E3_a_follower_leaves_the_isr_by_congestion_and_returns(impatient: Cluster) -> None:
    topic = replicated_topic(impatient, "matches")
    leader = impatient.leader(topic)
    slow, fast = sorted({0, 1, 2} - {leader})
    impatient.slow_down(leader, slow, rate=5_000)
    sent = [b"%d" % number + bytes(1_000) for number in range(300)]
    Publisher(impatient.bootstrap, {"batch.size": 20_000}).send(topic, [{"value": value} for value in sent])
    impatient.wait_in_sync(topic, {leader, fast})
    impatient.reconnect(slow)
    impatient.wait_in_sync(topic, {0, 1, 2})
    assert log_bytes(impatient, slow, topic) == log_bytes(impatient, leader, topic)
    assert read_values(impatient, topic) == sent


def test_E3_a_follower_leaves_the_isr_by_a_crash_and_returns(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    leader = cluster.leader(topic)
    crashed, other = sorted({0, 1, 2} - {leader})
    publisher = Publisher(cluster.bootstrap)
    publisher.send(topic, [{"value": b"before"}])
    cluster.kill(crashed)
    cluster.wait_in_sync(topic, {leader, other})
    publisher.send(topic, [{"value": b"meanwhile"}])
    cluster.restart(crashed)
    cluster.wait_in_sync(topic, {0, 1, 2})
    assert log_bytes(cluster, crashed, topic) == log_bytes(cluster, leader, topic)
    assert read_values(cluster, topic) == [b"before", b"meanwhile"]


def test_E4_consumers_see_only_committed_records(cluster: Cluster) -> None:
    topic = replicated_topic(cluster, "matches")
    leader = produce_to_leader(cluster, topic, b"committed")
    isolate_from_followers(cluster, leader)
    assert produce_error(cluster, leader, topic, batch_of(b"uncommitted"), acks=1) is ErrorCode.NONE
    assert b"uncommitted" in log_bytes(cluster, leader, topic), "in the log of the leader"
    with Reader(cluster.bootstrap, topic, [0]) as reader:
        assert reader.end(0, topic) == 1
        assert [message.value() for message in reader.take(1)] == [b"committed"]
        assert reader.nothing_more()
        kill_isolated(cluster, leader)
        produce_to_leader(cluster, topic, b"next", other_than=leader)
        (message,) = reader.take(1)
    assert (message.offset(), message.value()) == (1, b"next"), (
        "the uncommitted record is lost with its leader"
    )


def test_E5_too_few_in_sync_replicas_refuse_acks_all_and_reading_goes_on(cluster: Cluster) -> None:
    topic = assigned_topic(cluster, "matches", [0, 1], min_insync_replicas="2")
    Publisher(cluster.bootstrap).send(topic, [{"value": b"before"}])
    cluster.kill(1)
    cluster.wait_in_sync(topic, {0}, at=0)
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    producer.produce(topic, b"refused", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert [error.name() for error in failures] == ["NOT_ENOUGH_REPLICAS"]
    assert read_values(cluster, topic) == [b"before"]
    cluster.restart(1)
    cluster.wait_in_sync(topic, {0, 1})
    Publisher(cluster.bootstrap).send(topic, [{"value": b"after"}])
    assert read_values(cluster, topic) == [b"before", b"after"]
