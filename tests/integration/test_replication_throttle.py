"""A reassignment under a limit (KIP-73): the new replica waits, others do not; without the limit it joins the ISR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.replication.quota import UNLIMITED
from ottla.testing.cluster import Cluster
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
BROKER = 4
FETCH_BYTES = 65_536
RECORDS = 600
"""Of 1,000 bytes: several responses of the leader."""
OTHER_RECORDS = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {
        "replica.fetch.max.bytes": str(FETCH_BYTES),
        "replica.fetch.response.max.bytes": str(FETCH_BYTES),
    }
    folder: Path = tmp_path_factory.mktemp("brokers")
    with Cluster(brokers=2, data=folder, proxies=False, config=config) as running:
        yield running


def set_rate(client: RawClient, name: str, rate: int) -> None:
    """Set a limit of all brokers."""
    change = AlterableConfig(name=name, config_operation=0, value=str(rate))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
    response = client.ask(
        IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
    )
    assert not isinstance(response, Closed)
    assert [each.error_code for each in response.responses] == [0]


def add_replica(client: RawClient, topic: str) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=[0, 1])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])]
    )
    response = client.ask(request, 0, AlterPartitionReassignmentsResponse)
    assert not isinstance(response, Closed)
    assert response.error_code == 0
    assert response.responses[0].partitions[0].error_code == 0


def produce(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.size": 20_000, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, bytes(1_000))
    assert producer.flush(TIMEOUT_S) == 0


def copied_bytes(cluster: Cluster, topic: str) -> int:
    return sum(file.stat().st_size for file in (cluster.brokers[1].data / f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize(("side", "replica"), [("leader", "0:0"), ("follower", "0:1")])
def test_a_throttled_replica_waits_and_others_do_not(cluster: Cluster, side: str, replica: str) -> None:
    topic, other = f"throttled-by-{side}", f"beside-{side}"
    config = {f"{side}.replication.throttled.replicas": replica}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [
        NewTopic(topic, 1, replica_assignment=[[0]], config=config),
        NewTopic(other, 1, replica_assignment=[[0, 1]]),
    ]
    for created in admin.create_topics(topics).values():
        created.result(TIMEOUT_S)
    produce(cluster, topic, RECORDS)
    with RawClient(Address.parse(cluster.brokers[0].bootstrap)) as client:
        set_rate(client, f"{side}.replication.throttled.rate", 1)
        add_replica(client, topic)
        wait_until(lambda: copied_bytes(cluster, topic) > 0, "the first records to be copied", TIMEOUT_S)
        for _ in range(OTHER_RECORDS):
            produce(cluster, other, 1)
        assert copied_bytes(cluster, topic) < RECORDS * 1_000 / 2
        set_rate(client, f"{side}.replication.throttled.rate", UNLIMITED)
        cluster.wait_in_sync(topic, [0, 1], 0)
    assert copied_bytes(cluster, topic) > RECORDS * 1_000
