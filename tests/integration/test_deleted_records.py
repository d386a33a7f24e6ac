"""DeleteRecords on three real brokers: what was deleted does not appear again with another leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing.cluster import Cluster
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    # A broker that is paused stays unfenced for as long as the test takes.
    config = {"broker.session.timeout.ms": "60000"}
    with Cluster(brokers=3, data=tmp_path, proxies=False, config=config) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("events", 1, 3)])["events"].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(100):
            producer.produce("events", b"%d" % number)
        assert producer.flush(TIMEOUT_S) == 0
        yield running


def delete(cluster: Cluster, offset: int, timeout_s: float = TIMEOUT_S) -> int:
    """Delete the records below `offset`; returns the low watermark."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = TopicPartition("events", 0, offset)
    deleted = admin.delete_records([wanted], operation_timeout=timeout_s, request_timeout=TIMEOUT_S)
    (result,) = [future.result(TIMEOUT_S) for future in deleted.values()]
    low_watermark: int = result.low_watermark
    return low_watermark


def offsets(cluster: Cluster) -> tuple[int, int]:
    """The first and the last offset, as soon as the leader is known to all brokers."""
    found: list[tuple[int, int]] = []

    def read() -> bool:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "test"})
        try:
            found.append(consumer.get_watermark_offsets(TopicPartition("events", 0), 10.0))
        except KafkaException:
            return False
        finally:
            consumer.close()
        return True

    wait_until(read, "offsets of the leader", TIMEOUT_S)
    return found[-1]


def test_deleted_records_do_not_return_with_another_leader(cluster: Cluster) -> None:
    for offset in (10, 20, 30):
        assert delete(cluster, offset) == offset
        leader = cluster.leader("events")
        cluster.kill(leader)
        cluster.wait_leader("events", other_than=leader)
        assert offsets(cluster) == (offset, 100)
        cluster.restart(leader)
        wait_until(lambda: len(cluster.in_sync("events")) == 3, "three replicas in sync", TIMEOUT_S)


def test_a_follower_that_does_not_delete_in_time_delays_the_response(cluster: Cluster) -> None:
    leader = cluster.leader("events")
    follower = next(node_id for node_id in cluster.brokers if node_id != leader)
    cluster.pause(follower)
    with pytest.raises(KafkaException) as timed_out:
        delete(cluster, 10, timeout_s=0.5)
    assert timed_out.value.args[0].code() == KafkaError.REQUEST_TIMED_OUT
    assert offsets(cluster) == (10, 100)
    cluster.resume(follower)
    assert delete(cluster, 10) == 10
