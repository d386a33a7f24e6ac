"""Groups, their lag and the reset of their offsets through the library of administration, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from ottla.admin import topics
from ottla.admin.groups import (
    GroupInfo,
    delete_groups,
    delete_offsets,
    describe_group,
    describe_groups,
    list_groups,
)
from ottla.admin.log_offsets import leaders_of, record_timestamps
from ottla.admin.offset_reset import apply_reset, of_group, partitions_to_reset, reset_plan, shifted
from ottla.admin.session import Session
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Refused
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import commit_offsets, fresh

OLD_MS = 1_600_000_000_000
"""Timestamps of the records of these tests start here; one record per second."""


class Fixed:
    """A clock that shows one hour after the first record."""

    def now_ms(self) -> int:
        return OLD_MS + 3_600_000

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def session(broker: BrokerProcess) -> Iterator[Session]:
    with Session(broker.bootstrap, clock=Fixed()) as opened:
        yield opened


@pytest.fixture
def topic(session: Session, broker: BrokerProcess) -> str:
    """Ten records in partition 0, large ones in partition 1, none in partition 2."""
    name = fresh("lag")
    topics.create_topic(session, name, partitions=3, configs={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 100})
    for index in range(10):
        producer.produce(name, b"small", partition=0, timestamp=OLD_MS + index * 1000)
        producer.produce(name, bytes(40_000), partition=1, timestamp=OLD_MS + index * 1000)
    producer.flush()
    return name


@contextmanager
def member(broker: BrokerProcess, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "tester",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def commit(broker: BrokerProcess, group: str, offsets: dict[TopicPartition, int]) -> None:
    positions = [Position(tp.topic, tp.partition, offset) for tp, offset in offsets.items()]
    commit_offsets(broker.bootstrap, group, *positions)


def lags(group: GroupInfo) -> dict[int, tuple[int | None, float | None]]:
    return {each.partition: (each.lag, each.lag_seconds) for each in group.partitions}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_members_and_lag(
    session: Session, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    group = fresh(protocol)
    with member(broker, group, topic, protocol) as consumer:
        consumer.commit(offsets=[Position(topic, 0, 4), Position(topic, 1, 10)], asynchronous=False)
        found = describe_group(session, group)
    assert (found.type, found.protocol_type, found.state) == (protocol, "consumer", "Stable")
    (only,) = found.members
    assert (only.client_id, only.topics) == ("tester", (topic,))
    assert only.assigned == tuple(TopicPartition(topic, each) for each in range(3))
    assert lags(found) == {0: (6, 3596.0), 1: (0, 0.0), 2: (None, None)}
    assert {each.member_id for each in found.partitions} == {only.member_id}
    assert (found.lag, found.lag_seconds) == (6, 3596.0)
    empty = describe_group(session, group)
    assert (empty.state, empty.members) == ("Empty", ())
    assert lags(empty) == {0: (6, 3596.0), 1: (0, 0.0)}


def test_the_age_of_the_record_inside_a_large_batch_is_exact(
    session: Session, broker: BrokerProcess, topic: str
) -> None:
    group = fresh("large")
    commit(broker, group, {TopicPartition(topic, 1): 7})
    assert lags(describe_group(session, group)) == {1: (3, 3593.0)}


def test_the_age_after_deleted_records_is_that_of_the_first_record(
    session: Session, broker: BrokerProcess, topic: str
) -> None:
    group = fresh("deleted")
    commit(broker, group, {TopicPartition(topic, 0): 2})
    topics.trim(session, {TopicPartition(topic, 0): 5})
    assert lags(describe_group(session, group)) == {0: (8, 3595.0)}


def test_no_record_behind_the_position_has_no_timestamp(
    session: Session, broker: BrokerProcess, topic: str
) -> None:
    """The marker of a transaction has an offset, and is not a record."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": fresh("txn")})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=2, timestamp=OLD_MS)
    producer.commit_transaction()
    tp = TopicPartition(topic, 2)
    leaders = leaders_of(session.metadata([topic]))
    assert record_timestamps(session, {tp: 0}, leaders) == {tp: OLD_MS}
    assert record_timestamps(session, {tp: 1}, leaders) == {tp: None}


def test_groups_are_listed_and_deleted(session: Session, broker: BrokerProcess, topic: str) -> None:
    one, two = fresh("one"), fresh("two")
    for group in (one, two):
        commit(broker, group, {TopicPartition(topic, 0): 1})
    listed = {each.name: each for each in list_groups(session)}
    assert (listed[one].type, listed[one].state) == ("classic", "Empty")
    assert [each.name for each in describe_groups(session, [two, one])] == [two, one]
    delete_groups(session, [one])
    assert one not in {each.name for each in list_groups(session)}
    with pytest.raises(Refused, match="it does not exist"):
        describe_group(session, one)
    assert [each.name for each in describe_groups(session, [one, two], missing_ok=True)] == [two]
    with pytest.raises(Refused, match="it does not exist"):
        delete_groups(session, [one])


def test_a_group_with_members_is_not_deleted(session: Session, broker: BrokerProcess, topic: str) -> None:
    group = fresh("members")
    with member(broker, group, topic), pytest.raises(Refused, match="it has members; stop them first"):
        delete_groups(session, [group])


def test_offsets_of_a_group_are_deleted(session: Session, broker: BrokerProcess, topic: str) -> None:
    group = fresh("offsets")
    commit(broker, group, {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2})
    delete_offsets(session, group, [TopicPartition(topic, 0)])
    assert [each.tp for each in describe_group(session, group).partitions] == [TopicPartition(topic, 1)]


def test_a_reset_is_planned_and_applied(session: Session, broker: BrokerProcess, topic: str) -> None:
    group = fresh("reset")
    commit(broker, group, {TopicPartition(topic, 0): 4})
    plan = reset_plan(session, group, {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 99})
    assert plan.can_apply
    assert [(each.committed, each.target, each.shift, each.lag) for each in plan.entries] == [
        (4, 2, -2, 8),
        (None, 10, None, 0),
    ]
    assert lags(describe_group(session, group)) == {0: (6, 3596.0)}
    apply_reset(session, plan)
    assert lags(describe_group(session, group)) == {0: (8, 3598.0), 1: (0, 0.0)}


def test_targets_come_from_a_shift_or_another_group(
    session: Session, broker: BrokerProcess, topic: str
) -> None:
    one, two = fresh("one"), fresh("two")
    tp = TopicPartition(topic, 0)
    commit(broker, one, {tp: 4})
    assert partitions_to_reset(session, one) == [tp]
    assert len(partitions_to_reset(session, one, [topic])) == 3
    assert shifted(session, one, [tp], -3) == {tp: 1}
    with pytest.raises(LocalError, match="no committed offset"):
        shifted(session, one, [TopicPartition(topic, 1)], -3)
    assert of_group(session, one) == {tp: 4}
    with pytest.raises(LocalError, match="no committed offsets of these topics"):
        of_group(session, one, ["other"])
    with pytest.raises(LocalError, match="no committed offsets"):
        partitions_to_reset(session, two)
    apply_reset(session, reset_plan(session, two, of_group(session, one)))
    assert lags(describe_group(session, two)) == {0: (6, 3596.0)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_reset(
    session: Session, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    group = fresh("busy")
    with member(broker, group, topic, protocol):
        plan = reset_plan(session, group, {TopicPartition(topic, 0): 2})
        assert not plan.can_apply
        with pytest.raises(Refused, match="the group has members; stop them first"):
            apply_reset(session, plan)
