"""Fetch sessions of followers."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from tests.support.replica_fetches import Broker, Follower, caught_up


def test_a_follower_has_one_session() -> None:
    """A request of the session before, which may arrive late, is not served."""
    broker = Broker()
    before, other, after = Follower(broker), Follower(broker, 3), Follower(broker)
    before.fetch({0: 0}, wait_ms=0)
    other.fetch({0: 0}, wait_ms=0)
    after.fetch({0: 0}, wait_ms=0)
    with pytest.raises(AssertionError, match=str(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))):
        before.fetch({})
    other.fetch({})
    after.fetch({})


def test_a_partition_that_is_listed_and_forgotten_is_not_in_the_session() -> None:
    broker = Broker(partitions=2)
    follower = Follower(broker)
    follower.fetch({0: 0, 1: 0}, forget=[0], wait_ms=0)
    assert set(follower.received()) == {0, 1}
    follower.fetch({0: 0}, forget=[0], wait_ms=0)
    follower.connection.responses.clear()
    broker.append(0)
    broker.write()
    follower.fetch({}, wait_ms=0)
    assert follower.received() == {}


def test_a_follower_gets_the_offsets_that_it_has_ignored() -> None:
    """It ignores what it receives of a partition after it has sent another position (simulation, seed 17)."""
    broker = Broker()
    two = caught_up(broker, Follower(broker, 3))
    assert two.connection.on_next_request is not None
    two.connection.on_next_request()  # the next request arrives: the one that waits ends
    assert two.received()[0].high_watermark == 1
    two.fetch({0: 1})
    assert two.waits, "offsets alone do not end a wait"
    broker.expire()
    assert two.received()[0].high_watermark == 1


def test_a_new_incarnation_removes_the_sessions_of_the_old_one() -> None:
    broker = Broker()
    old, other = Follower(broker, 2), Follower(broker, 3)
    old.fetch({0: 0})
    other.fetch({0: 0})
    assert len(broker.partitions[0].replica_waiters) == 2
    Follower(broker, 2).fetch({0: 0}, broker_epoch=21)
    assert len(broker.partitions[0].replica_waiters) == 2
    assert len(broker.replica_sessions) == 2


def test_sessions_of_consumers_do_not_evict_those_of_followers() -> None:
    broker = Broker()
    follower = Follower(broker)
    follower.fetch({0: 0}, wait_ms=0)
    for _ in range(50):
        broker.clock.seconds += 1000
        Follower(broker, -1).fetch({0: 0}, wait_ms=0)
    follower.connection.responses.clear()
    follower.fetch({0: 0}, wait_ms=0)
    assert not follower.waits


def test_the_next_request_of_a_session_confirms_positions_that_it_does_not_list() -> None:
    """Another request of the same replica has recorded a position without a log start."""
    broker = Broker()
    (partition,) = broker.partitions
    two = caught_up(broker, Follower(broker, 3))
    assert partition.low_watermark == 0
    partition.fetched_by(2, -1, 1, -1)
    deletion = partition.delete_records(0)
    broker.turn()
    assert not deletion.done
    assert two.received()[0].log_start_offset == 0
    two.fetch({})
    assert deletion.result() == 0
    assert two.waits


def test_a_session_confirms_no_position_of_an_earlier_leader_epoch() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    two = caught_up(broker)
    partition.delete_records(0)
    broker.turn()
    two.connection.responses.clear()
    partition.become(broker.image(epoch=2, partition_epoch=1))
    broker.turn()
    two.connection.responses.clear()
    Follower(broker, 3).fetch({0: 1}, epoch=2, wait_ms=0)
    two.fetch({})
    assert partition.low_watermark == -1
    two.connection.responses.clear()
    two.fetch({0: 1}, epoch=2)
    assert partition.low_watermark == 0
