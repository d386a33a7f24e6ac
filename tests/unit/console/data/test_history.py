"""Rates, histories and changes between snapshots."""

from __future__ import annotations

from dataclasses import replace

from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.base.ids import TopicPartition
from ottla.console.data.history import SAMPLES_MAX, Lags, Rates, changes
from ottla.console.data.snapshot import Broker, Snapshot

TP = TopicPartition("orders", 0)
PARTITION = PartitionInfo("orders", 0, leader=0, leader_epoch=1, replicas=(0, 1), isr=(0, 1))
BEFORE = Snapshot(
    version=1,
    brokers=(Broker(0, "a:1", "R1", is_controller=True), Broker(1, "b:1", "R2")),
    topics=(TopicInfo("orders", "id", False, (PARTITION,)),),
)


def with_partition(**fields: object) -> Snapshot:
    changed = replace(PARTITION, **fields)  # type: ignore[arg-type]
    return replace(BEFORE, topics=(TopicInfo("orders", "id", False, (changed,)),))


def texts(after: Snapshot) -> list[str]:
    return [change.text for change in changes(BEFORE, after)]


def test_a_rate_is_the_difference_of_offsets_per_second() -> None:
    rates = Rates()
    assert rates.update({TP: 100}, 10.0) == {}
    assert rates.update({TP: 160}, 12.0) == {TP: 30.0}
    assert rates.update({}, 13.0) == {}
    assert rates.update({TP: 100}, 14.0) == {TP: 0.0}, "a topic that was created again has no negative rate"


def test_the_history_is_limited_and_leaves_internal_topics_out_of_the_sum() -> None:
    rates = Rates()
    internal = TopicPartition("__consumer_offsets", 0)
    for _ in range(SAMPLES_MAX + 5):
        histories = rates.record({TP: 2.0, internal: 50.0}, frozenset({"__consumer_offsets"}))
    assert histories[""] == [2.0] * SAMPLES_MAX
    assert histories["__consumer_offsets"] == [50.0] * SAMPLES_MAX


def test_the_lag_of_a_deleted_group_is_forgotten() -> None:
    lags = Lags()
    lags.record({"a": 5, "b": None})
    assert lags.record({"b": 1}) == {"b": [1]}


def test_nothing_changes_between_equal_snapshots() -> None:
    assert texts(BEFORE) == []


def test_a_leader_that_moves_is_reported_with_its_epoch() -> None:
    assert texts(with_partition(leader=1, leader_epoch=2)) == ["orders-0: leader 0 → 1, epoch 2"]
    assert texts(with_partition(leader=-1)) == ["orders-0: leader 0 → none, epoch 1"]


def test_the_in_sync_replicas_are_reported() -> None:
    assert texts(with_partition(isr=(0,))) == ["orders-0: in sync 0 1 → 0"]
    assert texts(with_partition(isr=(1, 0))) == []


def test_brokers_and_the_controller_are_reported() -> None:
    first, second = BEFORE.brokers
    after = replace(
        BEFORE,
        brokers=(replace(first, state="killed", is_controller=False), replace(second, is_controller=True)),
    )
    assert texts(after) == ["Broker 0 is killed", "Active controller: broker 0 → 1"]
    assert texts(replace(BEFORE, brokers=(first,))) == ["Broker 1 is not listed any more"]


def test_new_and_deleted_topics_are_reported() -> None:
    assert texts(replace(BEFORE, topics=())) == ["Topic orders was deleted"]
    made = TopicInfo("payments", "id", False, (replace(PARTITION, topic="payments"),))
    assert texts(replace(BEFORE, topics=(*BEFORE.topics, made))) == ["New topic payments"]
