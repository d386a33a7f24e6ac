"""Effective settings of topics, and which replicas may lead."""

from __future__ import annotations

import pytest

from ottla.metadata.image import NO_LEADER
from ottla.metadata.records import BrokerRegistrationChangeRecord, ConfigRecord, UnregisterBrokerRecord
from tests.support.controller import cluster, directory_of


def test_settings_of_the_topic_of_all_brokers_and_of_the_file() -> None:
    bench = cluster(unclean_leader_election_enable="true", log_flush_interval_messages="5")
    topic = bench.image.topics.by_name["t"]
    assert bench.view.allows_unclean_election(topic)
    assert not bench.view.is_synced(topic, 2)
    bench.replay(
        ConfigRecord(resource_type=4, resource_name="", name="unclean.leader.election.enable", value="false"),
        ConfigRecord(resource_type=4, resource_name="2", name="log.flush.interval.messages", value="1"),
    )
    assert not bench.view.allows_unclean_election(topic)
    assert (bench.view.is_synced(topic, 2), bench.view.is_synced(topic, 3)) == (True, False)
    bench.replay(ConfigRecord(resource_type=2, resource_name="t", name="flush.messages", value="1"))
    assert bench.view.is_synced(topic, 3)


@pytest.mark.parametrize(("setting", "effective"), [("1", 1), ("3", 3), ("5", 3)])
def test_minimum_is_at_most_the_replication_factor(setting: str, effective: int) -> None:
    bench = cluster(min_insync_replicas=setting)
    assert bench.view.min_insync_replicas(bench.image.topics.by_name["t"]) == effective


def test_an_unregistered_broker_does_not_lead() -> None:
    """It is still in the assignment."""
    bench = cluster(configs={"unclean.leader.election.enable": "true"})
    bench.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=1))
    bench.fence(2, 3)
    assert bench.partition().leader == NO_LEADER
    bench.heartbeat(3)
    assert bench.partition().leader == 3


def test_replica_in_a_directory_that_is_not_registered_does_not_lead() -> None:
    bench = cluster()
    bench.replay(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, log_dirs=[directory_of(2, 5)]))
    bench.fence(1)
    assert bench.partition().leader == 3
