from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import InvariantViolation
from ottla.metadata import records as rec
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import DIRECTORY_UNASSIGNED, EMPTY_IMAGE
from ottla.wire.schema import Message
from tests.support.metadata import broker_record, one_node, replayed, topic_id_of, topic_records

T1 = topic_id_of("t1")


def test_new_topic_is_in_both_tables_and_reported() -> None:
    base = one_node()
    delta = MetadataDelta(base)
    for record in topic_records("t1", [[1], [1]]):
        delta.replay(record)
    image = delta.apply(20, 3)
    assert image.topics.by_name["t1"] is image.topics.by_id[T1]
    assert list(image.topics.by_name["t1"].partitions) == [0, 1]
    assert delta.changed_topics == {T1}
    assert delta.changed_partitions(T1) == {0, 1}
    assert (image.offset, image.epoch) == (20, 3)
    assert "t1" not in base.topics.by_name


def test_unchanged_parts_are_shared() -> None:
    base = one_node("t0", "t1")
    image = replayed(topic_records("t2"), base)
    assert image.topics.by_name["t0"] is base.topics.by_name["t0"]
    assert image.brokers is base.brokers
    assert image.configs is base.configs
    configured = replayed([rec.ConfigRecord(resource_type=2, resource_name="t0", name="a", value="1")], image)
    assert configured.topics is image.topics


def test_base_image_is_never_changed() -> None:
    base = replayed(topic_records("t1", [[1], [1]], {"retention.ms": "1"}), one_node())
    before = base.topics.by_name["t1"].partitions[0]
    replayed([rec.PartitionChangeRecord(topic_id=T1, partition_id=0, leader=-1)], base)
    replayed([rec.RemoveTopicRecord(topic_id=T1)], base)
    assert base.topics.by_name["t1"].partitions[0] is before
    assert base.config(2, "t1") == {"retention.ms": "1"}


def test_delta_takes_nothing_after_apply() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.apply(0, 0)
    with pytest.raises(InvariantViolation):
        delta.replay(rec.NoOpRecord())


def test_deleted_topic_takes_its_settings_along() -> None:
    base = replayed(topic_records("t1", configs={"retention.ms": "1"}), one_node("t0"))
    delta = MetadataDelta(base)
    delta.replay(rec.RemoveTopicRecord(topic_id=T1))
    image = delta.apply(1, 1)
    assert list(image.topics.by_name) == ["t0"]
    assert list(image.topics.by_id) == [topic_id_of("t0")]
    assert image.config(2, "t1") == {}
    assert delta.deleted_topic_ids == {T1}
    assert delta.changed_configs == {(2, "t1")}
    assert delta.changed_topics == set()


def test_topic_made_and_deleted_in_one_delta_leaves_no_trace() -> None:
    delta = MetadataDelta(one_node())
    for record in [*topic_records("t1"), rec.RemoveTopicRecord(topic_id=T1)]:
        delta.replay(record)
    assert delta.apply(1, 1).topics.by_id == {}
    assert delta.deleted_topic_ids == set()
    assert delta.changed_partitions(T1) == frozenset()


def test_topic_that_is_changed_and_deleted_in_one_delta_is_only_deleted() -> None:
    delta = MetadataDelta(one_node("t1"))
    for record in [
        rec.PartitionChangeRecord(topic_id=T1, partition_id=0, leader=-1),
        rec.RemoveTopicRecord(topic_id=T1),
    ]:
        delta.replay(record)
    assert delta.apply(1, 1).topics.by_id == {}
    assert (delta.changed_topics, delta.deleted_topic_ids) == (set(), {T1})


def test_deleted_name_can_be_used_again() -> None:
    base = one_node("t1")
    again = uuid.UUID(int=99)
    records = [rec.RemoveTopicRecord(topic_id=T1), rec.TopicRecord(name="t1", topic_id=again)]
    image = replayed(records, base)
    assert image.topics.by_name["t1"].topic_id == again
    assert list(image.topics.by_id) == [again]


def test_partitions_are_sorted_whatever_the_order_of_records() -> None:
    topic, *partitions = topic_records("t1", [[1]] * 5)
    image = replayed([topic, *reversed(partitions)], one_node())
    assert list(image.topics.by_name["t1"].partitions) == [0, 1, 2, 3, 4]
    assert image.topics.by_id[T1] is image.topics.by_name["t1"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"leader": 1}, {"leader": 1, "leader_epoch": 1}),
        ({"leader": -1}, {"leader": -1, "leader_epoch": 1}),
        ({"isr": [1]}, {"isr": (1,), "leader": 1, "leader_epoch": 0}),
        ({"replicas": [1, 2], "directories": [uuid.UUID(int=7), uuid.UUID(int=8)]}, {"replicas": (1, 2)}),
        ({"replicas": [2, 1]}, {"directories": (DIRECTORY_UNASSIGNED, uuid.UUID(int=1010))}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
        (
            {"adding_replicas": [2], "removing_replicas": [1]},
            {"adding_replicas": (2,), "removing_replicas": (1,)},
        ),
        ({"eligible_leader_replicas": [1]}, {"eligible_leader_replicas": (1,)}),
        ({"last_known_elr": [1]}, {"last_known_elr": (1,)}),
    ],
)
def test_partition_change(change: dict[str, Any], expected: dict[str, Any]) -> None:
    record = rec.PartitionChangeRecord(topic_id=T1, partition_id=0, **change)
    partition = replayed([record], one_node("t1")).topics.by_id[T1].partitions[0]
    assert partition.partition_epoch == 1
    assert {name: getattr(partition, name) for name in expected} == expected


def test_clear_elr_of_one_topic_and_of_all() -> None:
    changes = [
        rec.PartitionChangeRecord(topic_id=topic_id_of(name), partition_id=0, eligible_leader_replicas=[1])
        for name in ("a", "b")
    ]
    base = replayed(changes, one_node("a", "b"))

    def elrs(record: Message) -> list[tuple[int, ...]]:
        image = replayed([record], base)
        return [image.topics.by_name[name].partitions[0].eligible_leader_replicas for name in ("a", "b")]

    assert elrs(rec.ClearElrRecord(topic_name="a")) == [(), (1,)]
    cleared = replayed([rec.ClearElrRecord(topic_name="a")], base)
    assert [cleared.topics.by_name[name].partitions[0].partition_epoch for name in ("a", "b")] == [2, 1]
    assert elrs(rec.ClearElrRecord(topic_name="")) == [(), ()]
    leaderless = rec.PartitionChangeRecord(topic_id=topic_id_of("a"), partition_id=0, leader=-1, isr=[])
    base = replayed([leaderless], base)
    assert elrs(rec.ClearElrRecord(topic_name="")) == [(1,), ()]


def test_clear_elr_clears_the_last_known_leader() -> None:
    known = rec.PartitionChangeRecord(topic_id=T1, partition_id=0, last_known_elr=[1])
    image = replayed([known, rec.ClearElrRecord(topic_name="t1")], one_node("t1"))
    assert image.topics.by_name["t1"].partitions[0].last_known_elr == ()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (rec.FenceBrokerRecord(id=1, epoch=5), {"fenced": True}),
        (rec.UnfenceBrokerRecord(id=1, epoch=5), {"fenced": False}),
        (rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1), {"fenced": True}),
        (rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1), {"fenced": False}),
        (
            rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1),
            {"in_controlled_shutdown": True, "active": False},
        ),
        (
            rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=-1),
            {"in_controlled_shutdown": False, "active": True},
        ),
        (
            rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, log_dirs=[T1]),
            {"log_dirs": (T1,), "active": True},
        ),
        (
            rec.RegisterBrokerRecord(broker_id=1, broker_epoch=9, fenced=False, in_controlled_shutdown=True),
            {"epoch": 9, "in_controlled_shutdown": True, "active": False},
        ),
        (
            rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, cordoned_log_dirs=[]),
            {"cordoned_log_dirs": (), "fenced": False},
        ),
    ],
)
def test_broker_changes(record: Message, expected: dict[str, Any]) -> None:
    delta = MetadataDelta(one_node())
    delta.replay(record)
    broker = delta.apply(9, 1).brokers[1]
    assert {name: getattr(broker, name) for name in expected} == expected
    assert delta.changed_brokers == {1}


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("stops", [True, False])
def test_a_change_of_a_broker_keeps_what_it_does_not_name(fenced: bool, stops: bool) -> None:
    registered = rec.RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=5,
        fenced=fenced,
        in_controlled_shutdown=stops,
        log_dirs=[T1],
        cordoned_log_dirs=[T1],
    )
    base = replayed([registered])
    image = replayed([rec.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5)], base)
    assert image.brokers == base.brokers


def test_a_controller_is_registered_and_replaced() -> None:
    records = [
        rec.RegisterControllerRecord(
            controller_id=3,
            incarnation_id=uuid.UUID(int=number),
            end_points=[rec.ControllerEndpoint(name="C", host="h", port=number)],
        )
        for number in (1, 2)
    ]
    controller = replayed(records).controllers[3]
    assert controller.incarnation_id == uuid.UUID(int=2)
    assert [(each.name, each.host, each.port) for each in controller.endpoints] == [("C", "h", 2)]


def test_an_unregistered_broker_is_removed() -> None:
    delta = MetadataDelta(one_node())
    delta.replay(rec.UnregisterBrokerRecord(broker_id=1, broker_epoch=5))
    assert delta.apply(9, 1).brokers == {}
    assert delta.changed_brokers == {1}


def test_directory_of_a_new_replica_is_known_only_without_choice() -> None:
    one, two = (replayed([broker_record(3, dirs=n)]).brokers[3] for n in (1, 2))
    assert one.default_directory() == one.log_dirs[0]
    assert two.default_directory() == DIRECTORY_UNASSIGNED


def test_settings_are_set_and_removed() -> None:
    def set_to(value: str | None) -> Message:
        return rec.ConfigRecord(resource_type=4, resource_name="", name="x", value=value)

    image = replayed([set_to("1"), set_to("2")])
    assert image.config(4, "") == {"x": "2"}
    assert replayed([set_to(None)], image).configs == {}


def test_feature_level_zero_removes_the_feature() -> None:
    image = one_node()
    assert image.metadata_version == 30
    assert image.elr_enabled
    off = rec.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)
    assert not replayed([off], image).elr_enabled


def test_security_records_are_kept_and_removed() -> None:
    acl = rec.AccessControlEntryRecord(id=uuid.UUID(int=3), principal="User:a")
    scram = rec.UserScramCredentialRecord(name="u", mechanism=1, salt=b"s")
    token = rec.DelegationTokenRecord(token_id="t")
    entity = [rec.EntityData(entity_type="user", entity_name=None)]
    quota = rec.ClientQuotaRecord(entity=entity, key="k", value=2.0)
    image = replayed([acl, scram, token, quota])
    assert list(image.acls.values()) == [acl]
    assert list(image.scram.values()) == [scram]
    assert list(image.tokens.values()) == [token]
    assert image.quotas == {(("user", None),): {"k": 2.0}}
    emptied = replayed(
        [
            rec.RemoveAccessControlEntryRecord(id=uuid.UUID(int=3)),
            rec.RemoveUserScramCredentialRecord(name="u", mechanism=1),
            rec.RemoveDelegationTokenRecord(token_id="t"),
            rec.ClientQuotaRecord(entity=entity, key="k", remove=True),
        ],
        image,
    )
    assert (emptied.acls, emptied.scram, emptied.tokens, emptied.quotas) == ({}, {}, {}, {})


@pytest.mark.parametrize(
    "record",
    [
        rec.TopicRecord(name="t1", topic_id=uuid.UUID(int=5)),
        rec.RemoveTopicRecord(topic_id=uuid.UUID(int=5)),
        rec.PartitionRecord(topic_id=uuid.UUID(int=5), partition_id=0),
        rec.PartitionChangeRecord(topic_id=T1, partition_id=7),
        rec.PartitionChangeRecord(topic_id=uuid.UUID(int=5), partition_id=0),
        rec.ClearElrRecord(topic_name="nope"),
        rec.FenceBrokerRecord(id=1, epoch=4),
        rec.FenceBrokerRecord(id=2, epoch=5),
        rec.UnregisterBrokerRecord(broker_id=2, broker_epoch=5),
        rec.ProducerIdsRecord(next_producer_id=-5),
        rec.BeginTransactionRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_record_that_contradicts_the_image_is_a_broken_log(record: Message) -> None:
    with pytest.raises(InvariantViolation):
        replayed([record], one_node("t1"))


def test_creating_a_topic_does_not_copy_other_partitions() -> None:
    base = replayed([r for n in range(50) for r in topic_records(f"t{n}", [[1]] * 10)], one_node())
    image = replayed(topic_records("new"), base)
    for name, topic in base.topics.by_name.items():
        assert image.topics.by_name[name].partitions is topic.partitions
