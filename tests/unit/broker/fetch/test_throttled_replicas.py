"""A leader sends no records to throttled replicas that are not in sync while its limit is exceeded (KIP-73)."""

from __future__ import annotations

import pytest

from ottla.storage.log.log_config import LogConfig
from tests.support.replica_fetches import Broker, Follower

BOUND = 1000


def make_broker(replicas: tuple[str, ...] = ("0:1",), *, isr: tuple[int, ...] = (1, 3)) -> Broker:
    """A leader with one record, whose limit is exceeded."""
    broker = Broker(config=LogConfig(leader_replication_throttled_replicas=replicas))
    broker.partitions[0].become(broker.image(isr, partition_epoch=1))
    broker.append()
    broker.write()
    broker.quotas.leader_replication.set_bound(BOUND)
    broker.quotas.leader_replication.record(10 * BOUND)
    return broker


@pytest.mark.parametrize("session", [True, False])
def test_a_throttled_replica_waits_until_the_limit_is_not_exceeded(session: bool) -> None:
    broker = make_broker()
    follower = Follower(broker, 2, session=session)
    follower.fetch({0: 0})
    assert follower.waits
    broker.expire()
    assert not follower.received()[0].records
    broker.clock.seconds += 60
    follower.fetch({0: 0})
    assert follower.received()[0].records


def test_a_replica_in_sync_is_not_delayed() -> None:
    broker = make_broker()
    follower = Follower(broker, 3)
    follower.fetch({0: 0})
    assert follower.received()[0].records


@pytest.mark.parametrize("replicas", [(), ("0:2",), ("1:1",)])
def test_a_replica_that_no_entry_names_is_not_delayed(replicas: tuple[str, ...]) -> None:
    follower = Follower(make_broker(replicas), 2)
    follower.fetch({0: 0})
    assert follower.received()[0].records


def test_a_fetch_that_is_throttled_still_reports_the_position() -> None:
    broker = make_broker(isr=(1,))
    follower = Follower(broker, 2)
    follower.fetch({0: 1})
    broker.expire()
    follower.received()
    assert [request.topics[0].partitions[0].partition_index for request in broker.alterations] == [0]


def test_the_bytes_of_throttled_replicas_count_also_of_those_in_sync() -> None:
    broker = make_broker()
    broker.clock.seconds += 60
    quota = broker.quotas.leader_replication
    quota.set_bound(10)
    assert not quota.exceeded
    follower = Follower(broker, 3)
    follower.fetch({0: 0})
    assert follower.received()[0].records
    assert quota.exceeded


def test_other_bytes_do_not_count() -> None:
    broker = make_broker(())
    broker.clock.seconds += 60
    quota = broker.quotas.leader_replication
    quota.set_bound(10)
    follower = Follower(broker, 2)
    follower.fetch({0: 0})
    assert follower.received()[0].records
    assert not quota.exceeded
