"""Reading and writing while a partition moves to another broker."""

from __future__ import annotations

import pytest

from ottla.client.raw import ClientSettings, Cluster, RawProducer, TimedOut
from ottla.wire.messages.fetch import FetchRequest

from .two_brokers import ONE, TP, TWO, TwoBrokers, batches_of


def test_reading_follows_the_leader(brokers: TwoBrokers, cluster: Cluster) -> None:
    assert cluster.list_offsets({TP: -1}) == {TP: (9, -1)}
    assert cluster.fetch(TP, 0).end(0) == 1
    brokers.leader = TWO
    assert cluster.fetch(TP, 0).end(0) == 1
    brokers.leader = ONE
    assert cluster.list_offsets({TP: -1}) == {TP: (9, -1)}
    fetches = [node for node, request in brokers.asked if request is FetchRequest]
    assert fetches == [ONE, ONE, TWO]


@pytest.mark.parametrize("moves_after", range(8))
@pytest.mark.parametrize("hangs_up", [False, True])
def test_writing_follows_the_leader_in_order(
    brokers: TwoBrokers, cluster: Cluster, moves_after: int, hangs_up: bool
) -> None:
    """Up to five batches are under way when the leader moves: each arrives once, in its place."""
    brokers.moves_after, brokers.hangs_up = moves_after, hangs_up
    producer = RawProducer(cluster)
    producer.init()
    producer.send(TP, batches_of(12))
    assert producer.flush().records == 12
    assert brokers.stored == list(range(12))


def test_a_partition_without_a_leader_times_out(brokers: TwoBrokers) -> None:
    brokers.leader = -1
    options = {"bootstrap.servers": brokers.bootstrap, "default.api.timeout.ms": 50, "retry.backoff.ms": 1}
    with Cluster(ClientSettings.from_options(options)) as cluster:
        with pytest.raises(TimedOut, match="t-0 has no leader"):
            cluster.fetch(TP, 0)
        producer = RawProducer(cluster)
        producer.init()
        producer.send(TP, batches_of(1))
        with pytest.raises(TimedOut, match="t-0 has no leader"):
            producer.flush()
