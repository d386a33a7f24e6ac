"""Brokers of a cluster of processes: requests at any broker, fencing by evidence and by sessions, stops and returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.base.errors import ErrorCode
from ottla.local.cluster import LocalCluster
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.support.raw import Address, RawClient

BROKER = 4
LONG = "600000"
"""A session or timeout in milliseconds that does not end during a test."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster whose brokers no test stops."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3) as started:
        yield started


def create(cluster: LocalCluster, at: int, name: str, partitions: int = 1, replicas: int = 1) -> None:
    """Create a topic at one broker; raises KafkaException."""
    admin = AdminClient({"bootstrap.servers": cluster.address(at)})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)


def raw(cluster: LocalCluster, node_id: int) -> RawClient:
    return RawClient(Address.parse(cluster.address(node_id)))


def listed(cluster: LocalCluster, node_id: int) -> set[int]:
    """The brokers that a broker lists: those that are not fenced."""
    response = cluster.metadata(at=node_id)
    return set() if response is None else {each.node_id for each in response.brokers}


def wait_listed(cluster: LocalCluster, brokers: set[int]) -> None:
    cluster.wait_until(
        lambda: all(listed(cluster, node_id) == brokers for node_id in cluster.running),
        f"only the brokers {brokers} to be listed",
    )


def wait_coordinator(cluster: LocalCluster, node_id: int) -> None:
    """Wait until a broker finds the coordinator of a group; clients repeat the request while the topic is new."""
    group = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"group-{node_id}"])

    def found() -> bool:
        with raw(cluster, node_id) as client:
            response = client.ask(group, 4, FindCoordinatorResponse)
        assert isinstance(response, FindCoordinatorResponse)
        return response.coordinators[0].error_code == ErrorCode.NONE

    cluster.wait_until(found, f"a coordinator at broker {node_id}")


def test_a_topic_created_at_any_broker_is_there_at_once(cluster: LocalCluster) -> None:
    for number in range(9):
        node_id, name = number % 3, f"created-{number}"
        topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
        with raw(cluster, node_id) as client:
            created = client.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
            assert isinstance(created, CreateTopicsResponse)
            assert [(each.name, each.error_code) for each in created.topics] == [(name, 0)]
            wanted = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            response = client.ask(wanted, 12, MetadataResponse)
        assert isinstance(response, MetadataResponse)
        assert [(each.error_code, len(each.partitions)) for each in response.topics] == [(0, 3)]


def test_errors_of_the_controller_reach_the_client(cluster: LocalCluster) -> None:
    for node_id in cluster.brokers:
        with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
            create(cluster, node_id, "too-many", replicas=4)


def test_topics_are_created_on_demand_at_any_broker(cluster: LocalCluster) -> None:
    for node_id in cluster.brokers:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=f"wanted-at-{node_id}")])
        with raw(cluster, node_id) as client:
            response = client.ask(wanted, 12, MetadataResponse)
            assert isinstance(response, MetadataResponse)
            assert [each.error_code for each in response.topics] == [0]
        wait_coordinator(cluster, node_id)


def test_producer_ids_of_all_brokers_are_distinct(cluster: LocalCluster) -> None:
    ids = []
    for node_id in cluster.brokers:
        with raw(cluster, node_id) as client:
            for _ in range(3):
                response = client.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse)
                assert isinstance(response, InitProducerIdResponse)
                assert response.error_code == ErrorCode.NONE
                ids.append(response.producer_id)
    assert len(set(ids)) == len(ids)


def test_the_settings_of_one_broker_are_altered_at_that_broker_only(cluster: LocalCluster) -> None:
    def alter(at: int, name: str) -> int:
        entry = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="1")
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[entry])
        with raw(cluster, at) as client:
            response = client.ask(
                IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
            )
        assert isinstance(response, IncrementalAlterConfigsResponse)
        return response.responses[0].error_code

    for node_id in cluster.brokers:
        other = (node_id + 1) % len(cluster.brokers)
        assert alter(node_id, str(node_id)) == ErrorCode.NONE
        assert alter(node_id, "") == ErrorCode.NONE
        assert alter(node_id, str(other)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("is_controller", [True, False], ids=["active controller", "other broker"])
def test_a_killed_broker_is_fenced_by_evidence_and_returns(tmp_path: Path, is_controller: bool) -> None:
    with LocalCluster(tmp_path, 3, config={"broker.session.timeout.ms": LONG}) as cluster:
        active = cluster.controller()
        assert active is not None
        victim = active if is_controller else (active + 1) % 3
        cluster.kill(victim)
        wait_listed(cluster, {0, 1, 2} - {victim})
        cluster.restart(victim)
        wait_listed(cluster, {0, 1, 2})


def test_a_paused_broker_is_fenced_after_its_session_and_returns(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3, config={"broker.session.timeout.ms": "1000"}) as cluster:
        active = cluster.controller()
        assert active is not None
        paused = (active + 1) % 3
        cluster.pause(paused)
        wait_listed(cluster, {0, 1, 2} - {paused})
        cluster.resume(paused)
        wait_listed(cluster, {0, 1, 2})


def test_a_running_broker_that_is_unregistered_returns_to_the_isr_of_idle_partitions(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        create(cluster, 0, "idle", 3, 3)
        # The response is sent when broker 0 has applied that broker 2 has left every ISR.
        with raw(cluster, 0) as client:
            response = client.ask(UnregisterBrokerRequest(broker_id=2), 0, UnregisterBrokerResponse)
        assert response.error_code == 0
        cluster.wait_until(
            lambda: all(cluster.in_sync("idle", index, at=0) == {0, 1, 2} for index in range(3)),
            "all replicas to be in sync again",
        )


def test_a_clean_stop_moves_leaders_first(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3, config={"broker.session.timeout.ms": LONG}) as cluster:
        create(cluster, 0, "moved", partitions=6, replicas=3)
        leader = cluster.leader("moved")
        cluster.stop(leader)
        assert (tmp_path / f"broker-{leader}" / ".kafka_cleanshutdown").exists()
        for index in range(6):
            assert cluster.wait_leader("moved", index, other_than=leader) != leader
        assert "fencing brokers" not in "".join(each.output() for each in cluster.brokers.values())
        cluster.restart(leader)
        wait_listed(cluster, {0, 1, 2})


def test_without_a_controller_a_request_times_out(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3, config={"request.timeout.ms": "1000"}) as cluster:
        cluster.kill(0)
        cluster.kill(1)
        topic = CreatableTopic(name="never", num_partitions=1, replication_factor=1)
        with raw(cluster, 2) as client:
            response = client.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        assert isinstance(response, CreateTopicsResponse)
        assert [each.error_code for each in response.topics] == [ErrorCode.REQUEST_TIMED_OUT]
        cluster.restart_all()
        create(cluster, 2, "later")
