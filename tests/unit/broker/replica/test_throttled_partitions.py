"""A follower does not fetch throttled partitions while its limit is exceeded (KIP-73)."""

from __future__ import annotations

import pytest

from ottla.replication.quota import UNLIMITED
from ottla.storage.log.log_config import LogConfig
from tests.support.followers import NODE, FollowingBroker, data, raw


@pytest.fixture
def broker() -> FollowingBroker:
    """Of three partitions, the second is throttled."""
    config = LogConfig(follower_replication_throttled_replicas=(f"1:{NODE}",))
    made = FollowingBroker(config)
    made.create(3)
    made.quota.set_bound(100)
    return made


def indexes(broker: FollowingBroker) -> list[int]:
    return [position[0] for position in broker.positions()]


def forgotten(broker: FollowingBroker) -> list[int]:
    return [index for topic in broker.next_request().forgotten_topics_data for index in topic.partitions]


def test_a_throttled_partition_leaves_the_session_and_returns(broker: FollowingBroker) -> None:
    assert indexes(broker) == [0, 1, 2]
    broker.respond(data(1, raw(0, 0, 100), high_watermark=1000))
    broker.settle()
    assert broker.quota.exceeded
    assert (indexes(broker), forgotten(broker)) == ([], [1])
    broker.loop.advance(30.0)
    assert not broker.quota.exceeded
    broker.respond()
    assert [position[:3] for position in broker.positions()] == [(1, 0, 100)]


def test_the_other_partitions_are_fetched_meanwhile(broker: FollowingBroker) -> None:
    broker.respond(data(1, raw(0, 0, 100), high_watermark=1000), data(2, raw(0, 0)))
    broker.settle()
    assert (indexes(broker), forgotten(broker)) == ([2], [1])


def test_only_the_bytes_of_throttled_partitions_count(broker: FollowingBroker) -> None:
    broker.respond(data(0, raw(0, 0, 100), high_watermark=1000))
    broker.settle()
    assert not broker.quota.exceeded
    assert (indexes(broker), forgotten(broker)) == ([0], [])


def test_a_partition_that_has_all_committed_records_is_not_throttled(broker: FollowingBroker) -> None:
    broker.respond(data(1, raw(0, 0, 100), high_watermark=100))
    broker.settle()
    assert broker.quota.exceeded
    assert (indexes(broker), forgotten(broker)) == ([1], [])


def test_a_limit_that_is_removed_ends_the_wait(broker: FollowingBroker) -> None:
    broker.respond(data(1, raw(0, 0, 100), high_watermark=1000))
    broker.settle()
    broker.quota.set_bound(UNLIMITED)
    broker.loop.advance(1.0)
    broker.respond()
    assert indexes(broker) == [1]


def test_a_throttled_partition_that_is_alone_is_fetched_again() -> None:
    config = LogConfig(follower_replication_throttled_replicas=("*",))
    broker = FollowingBroker(config)
    broker.create(1)
    broker.quota.set_bound(100)
    broker.respond(data(0, raw(0, 0, 100), high_watermark=1000))
    broker.settle()
    assert not broker.peers.waiting
    broker.loop.advance(30.0)
    assert [position[:3] for position in broker.positions()] == [(0, 0, 100)]


def test_a_partition_that_is_followed_no_longer_does_not_return(broker: FollowingBroker) -> None:
    broker.respond(data(1, raw(0, 0, 100), high_watermark=1000))
    broker.settle()
    broker.lead(NODE, 1)
    broker.settle()
    broker.loop.advance(30.0)
    broker.respond()
    broker.settle()
    assert indexes(broker) == []
    assert len(broker.peers.waiting) == 1
