"""Fetches of followers that have all records of the leader: they are recorded and wait."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from tests.support.replica_fetches import Broker, Follower, caught_up


def test_a_request_at_the_end_of_the_log_returns_the_high_watermark_that_moved_before() -> None:
    broker = Broker()
    three = Follower(broker, 3)
    two = caught_up(broker, three)
    assert broker.partitions[0].high_watermark == 1
    broker.expire()
    for follower in (two, three):
        assert follower.received()[0].high_watermark == 1


def test_a_request_at_the_end_of_the_log_waits_for_the_others_of_its_session() -> None:
    broker = Broker(partitions=2)
    broker.append(0)
    broker.append(1)
    broker.write()
    follower = Follower(broker)
    follower.fetch({0: 0, 1: 0})
    assert set(follower.received()) == {0, 1}
    follower.fetch({0: 1})  # it could not append the records of the other partition
    assert follower.received()[1].records


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epoch": 1}, None),
        ({"broker_epoch": 19}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_refused_request_at_the_end_of_the_log_is_not_recorded(
    change: dict[str, int], code: ErrorCode | None
) -> None:
    broker = Broker()
    follower = caught_up(broker)
    waiter = broker.append()
    broker.write()
    assert follower.received()[0].records
    Follower(broker, 3).fetch({0: 2}, wait_ms=0)
    follower.fetch({0: 2}, **change)  # type: ignore[arg-type]
    assert waiter.errors == []
    assert broker.partitions[0].high_watermark == 1
    assert follower.waits if code is None else follower.received()[0].error_code == code


def test_a_request_at_the_end_of_a_diverging_log_is_not_recorded() -> None:
    """The follower has a record of an epoch that the leader does not know, at the same offset."""
    broker = Broker()
    (partition,) = broker.partitions
    follower = caught_up(broker)
    partition.become(broker.image(epoch=2, partition_epoch=1))
    broker.turn()
    follower.connection.responses.clear()
    waiter = broker.append()
    broker.write()
    follower.connection.responses.clear()
    Follower(broker, 3).fetch({0: 2}, epoch=2, last_epoch=2, wait_ms=0)
    follower.fetch({0: 2}, epoch=2, last_epoch=1)
    assert follower.received()[0].diverging_epoch.end_offset == 1
    assert waiter.errors == []


def test_a_request_below_the_end_of_the_log_is_served_at_once() -> None:
    broker = Broker()
    follower = caught_up(broker)
    for _ in range(2):
        broker.append()
        broker.write()
    assert follower.received()[0].records
    follower.fetch({0: 2})
    assert follower.received()[0].records


def test_a_request_at_the_end_of_the_log_gets_what_is_being_written() -> None:
    broker = Broker()
    follower = caught_up(broker)
    broker.append()
    broker.start_write()
    assert follower.received()[0].records, "they are being written"
    follower.fetch({0: 1})  # it could not append them
    assert follower.received()[0].records
