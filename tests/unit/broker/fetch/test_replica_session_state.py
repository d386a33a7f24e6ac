"""Which partitions of a follower's session are due, and which requests wait."""

from __future__ import annotations

from typing import cast

import pytest

from ottla.broker.fetch.replica_sessions import ReplicaSession
from tests.support.replica_fetches import TOPIC_ID, Broker, Follower

KEYS = [(TOPIC_ID.bytes, index) for index in range(2)]


def session_of(broker: Broker) -> ReplicaSession:
    (session,) = broker.replica_sessions._sessions.values()
    return cast(ReplicaSession, session)


def due(session: ReplicaSession) -> list[int]:
    return [wanted.partition for _, wanted in session.wanted()]


@pytest.fixture
def broker() -> Broker:
    """The follower has all records of two partitions."""
    made = Broker(partitions=2)
    follower = Follower(made)
    for offsets in ({0: 0, 1: 0}, {}):
        follower.fetch(offsets, wait_ms=0)
    assert due(session_of(made)) == []
    return made


def test_a_partition_that_moves_while_a_response_is_made_stays_due(broker: Broker) -> None:
    session, (partition, _) = session_of(broker), broker.partitions
    session.high_watermark_moved(partition)
    assert due(session) == [0]
    session.high_watermark_moved(partition)
    session.changed([], reorder=False)
    assert due(session) == [0]
    session.changed([], reorder=False)
    assert due(session) == []


def test_partitions_of_which_the_follower_lacks_records_are_due_after_the_others(broker: Broker) -> None:
    session, partitions = session_of(broker), broker.partitions
    session.partition_moved(partitions[0])
    session.partition_moved(partitions[1])
    session.caught_up(KEYS[1])
    assert due(session) == [0, 1]
    session.changed([], reorder=False)
    assert due(session) == [0], "the follower has all records of the other one"
    session.high_watermark_moved(partitions[1])
    assert due(session) == [0, 1]
    session.changed([], reorder=False)
    assert due(session) == [0]
    session.partition_moved(partitions[1])
    session.changed([], reorder=False)
    assert due(session) == [1, 0], "the first one was in the last response"


def test_a_forgotten_partition_is_not_due_and_ends_no_wait() -> None:
    broker = Broker(partitions=2)
    follower = Follower(broker)
    broker.append(0)
    broker.write()
    for offsets in ({0: 0, 1: 0}, {}):
        follower.fetch(offsets)
        assert follower.received()[0].records
    assert due(session_of(broker)) == [0]
    follower.fetch({}, forget=[0])
    assert follower.waits
    assert due(session_of(broker)) == []
    broker.append(1)
    broker.write()
    assert set(follower.received()) == {1}


def test_records_of_all_partitions_that_have_moved_are_in_one_response() -> None:
    broker = Broker(partitions=3)
    follower = Follower(broker)
    follower.fetch({0: 0, 1: 0, 2: 0})
    broker.expire()
    follower.received()
    follower.fetch({})
    broker.append(0)
    broker.append(2)
    broker.write()
    received = follower.received()
    assert [index for index in sorted(received) if received[index].records] == [0, 2]


def test_a_fetch_that_commits_records_gets_the_new_high_watermark() -> None:
    broker = Broker()
    broker.partitions[0].become(broker.image((1, 2), partition_epoch=1))
    broker.append()
    broker.write()
    follower = Follower(broker)
    follower.fetch({0: 1}, wait_ms=0)
    assert follower.received()[0].high_watermark == 1


def test_a_session_that_is_not_used_for_long_is_removed_with_its_partitions() -> None:
    broker = Broker()
    Follower(broker, 2).fetch({0: 0})
    broker.clock.seconds += 119
    Follower(broker, 3).fetch({0: 0})
    assert len(broker.replica_sessions) == 2
    broker.clock.seconds += 2
    Follower(broker, 3).fetch({0: 0})
    assert len(broker.replica_sessions) == 1
    assert len(broker.partitions[0].replica_waiters) == 1
