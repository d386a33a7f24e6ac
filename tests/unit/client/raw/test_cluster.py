"""Cached metadata of a cluster, until it expires or is wrong."""

from __future__ import annotations

import pytest

from ottla.client.raw import (
    ClientSettings,
    Cluster,
    TransactionEnd,
    UnknownTopic,
    describe_transaction,
    end_transactions,
    init_producer_id,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message

from .test_retry import Time
from .two_brokers import ONE, TWO, TwoBrokers


def nodes_asked(brokers: TwoBrokers, request: type[Message]) -> list[int]:
    return [node for node, asked in brokers.asked if asked is request]


def test_expired_topics_are_requested_again(brokers: TwoBrokers) -> None:
    time = Time()
    options = {"bootstrap.servers": brokers.bootstrap, "metadata.max.age.ms": 60_000}
    with Cluster(ClientSettings.from_options(options), clock=time, wait=time.wait) as cluster:
        assert cluster.topic("t").partitions[0].leader == ONE
        brokers.leader = TWO
        time.now = 59.9
        assert cluster.topic("t").partitions[0].leader == ONE
        time.now = 60.0
        assert cluster.topic("t").partitions[0].leader == TWO
    assert len(nodes_asked(brokers, MetadataRequest)) == 2


def test_a_deleted_topic_is_removed_from_the_cache(brokers: TwoBrokers) -> None:
    time = Time()
    options = {"bootstrap.servers": brokers.bootstrap}
    with Cluster(ClientSettings.from_options(options), clock=time, wait=time.wait) as cluster:
        cluster.topic("t")
        brokers.exists = False
        assert cluster.topics(["t"]) == {}
        with pytest.raises(UnknownTopic):
            cluster.topic("t")


def test_an_unknown_topic_is_looked_up_once_unless_waiting_is_requested(brokers: TwoBrokers) -> None:
    time = Time()
    options = {"bootstrap.servers": brokers.bootstrap}
    brokers.exists = False
    with Cluster(ClientSettings.from_options(options), clock=time, wait=time.wait) as cluster:
        with pytest.raises(UnknownTopic):
            cluster.topic("t")
        assert len(nodes_asked(brokers, MetadataRequest)) == 1
        for given in ({"wait": True}, {"create": True}):
            before, time.now = len(nodes_asked(brokers, MetadataRequest)), 0.0
            with pytest.raises(UnknownTopic):
                cluster.topic("t", **given)
            assert time.now > 3
            assert len(nodes_asked(brokers, MetadataRequest)) > before + 1


def test_a_coordinator_that_completes_a_transaction_gets_the_request_again(
    brokers: TwoBrokers, cluster: Cluster
) -> None:
    cluster.topics()
    brokers.not_over = 3
    assert end_transactions(cluster, [("id", 5, 0)], commit=True) == [TransactionEnd.ENDED]
    assert nodes_asked(brokers, EndTxnRequest) == [ONE] * 4


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_former_coordinator_is_removed_from_the_cache(
    brokers: TwoBrokers, cluster: Cluster, hangs_up: bool
) -> None:
    brokers.hangs_up = hangs_up
    cluster.topics()
    for _ in range(2):
        assert describe_transaction(cluster, "id") is not None
    assert len(nodes_asked(brokers, FindCoordinatorRequest)) == 1
    brokers.coordinator = TWO
    for _ in range(2):
        assert describe_transaction(cluster, "id") is not None
    assert nodes_asked(brokers, DescribeTransactionsRequest) == [ONE, ONE, ONE, TWO, TWO]
    assert len(nodes_asked(brokers, FindCoordinatorRequest)) == 2


def test_an_unreachable_coordinator_is_removed_from_the_cache(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.coordinator = TWO
    init_producer_id(cluster, "id", timeout_ms=1000)
    brokers.brokers[TWO].close()
    brokers.coordinator = ONE
    assert init_producer_id(cluster, "id", timeout_ms=1000).epoch == 1
    assert len(nodes_asked(brokers, FindCoordinatorRequest)) == 2
