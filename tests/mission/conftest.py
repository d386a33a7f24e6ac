"""Clusters of real brokers for the rows of the mission that need several."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.testing import Cluster

MakeCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def make_cluster(request: pytest.FixtureRequest) -> MakeCluster:
    """What makes a cluster: Ottla's processes, or Apache Kafka's."""
    if request.config.getoption("--on-kafka"):
        from tests.support.kafka_cluster import KafkaTestCluster

        return KafkaTestCluster
    return Cluster


@pytest.fixture(scope="session")
def shared_cluster(make_cluster: MakeCluster) -> Iterator[Cluster]:
    with make_cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """Three brokers that all run; after the test they run again."""
    yield shared_cluster
    shared_cluster.network.clear_faults()
    for node_id in shared_cluster.brokers:
        shared_cluster.resume(node_id)
    shared_cluster.restart_all()
