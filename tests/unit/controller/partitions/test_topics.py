"""The answers of Apache Kafka 4.3.1 on one node, observed, as tables."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.config.broker import BrokerConfig
from ottla.controller import decision
from ottla.controller.partitions import topics
from ottla.controller.partitions.topics import (
    TopicManager,
    refuse_create,
    refuse_create_partitions,
    refuse_delete,
)
from ottla.controller.settings.config_rules import ConfigRules
from ottla.metadata.image import MetadataImage
from ottla.metadata.placement import preferred_leaders
from ottla.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.metadata import broker_record, features, one_node, replayed, topic_id_of, topic_records


def manager(**settings: str) -> TopicManager:
    config = BrokerConfig({"node.id": "1", **{k.replace("_", "."): v for k, v in settings.items()}})
    return TopicManager(config, ConfigRules(config, 1), random.Random(7))


def topic(name: str = "new", partitions: int = 1, factor: int = 1, **more: Any) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in more.get("assign", [])
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in more.get("configs", [])],
    )


def created(image: MetadataImage, *topics: CreatableTopic, **more: Any) -> tuple[list[Any], dict[str, int]]:
    decision = manager().decide_create(image, CreateTopicsRequest(topics=list(topics), **more))
    return decision.records, {result.name: result.error_code for result in decision.response.topics}


def test_records_of_a_new_topic() -> None:
    image = one_node()
    asked = topic("new", 2, 1, configs=[("retention.ms", "5")])
    decision = manager().decide_create(image, CreateTopicsRequest(topics=[asked]))
    made, config, first, second = decision.records
    assert isinstance(made, TopicRecord)
    assert made.name == "new"
    assert config == ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="5")
    assert isinstance(first, PartitionRecord)
    assert isinstance(second, PartitionRecord)
    assert first == PartitionRecord(
        partition_id=0,
        topic_id=made.topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[image.brokers[1].log_dirs[0]],
    )
    assert second.partition_id == 1
    result = decision.response.topics[0]
    assert (result.error_code, result.error_message, result.num_partitions, result.replication_factor) == (
        0,
        None,
        2,
        1,
    )
    assert result.topic_id == made.topic_id
    shown = {entry.name: (entry.value, entry.config_source) for entry in result.configs or []}
    assert len(shown) == 33
    assert shown["retention.ms"] == ("5", 1)
    assert shown["cleanup.policy"] == ("delete", 5)


def test_min_insync_replicas_of_the_cluster_shows_its_source() -> None:
    record = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    decision = manager().decide_create(replayed([record], one_node()), CreateTopicsRequest(topics=[topic()]))
    entries = decision.response.topics[0].configs or []
    assert [(e.value, e.config_source) for e in entries if e.name == "min.insync.replicas"] == [("1", 3)]


def test_defaults_of_the_broker() -> None:
    decided = manager(num_partitions="3").decide_create(
        one_node(), CreateTopicsRequest(topics=[topic(partitions=-1, factor=-1)])
    )
    assert decided.response.topics[0].num_partitions == 3
    assert len(decided.records) == 4


REFUSED: list[tuple[str, CreatableTopic, ErrorCode]] = [
    ("exists", topic("t1"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("exists and bad value", topic("t1", configs=[("retention.ms", "x")]), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("no name", topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("two dots", topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("too long", topic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("slash", topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("collision", topic("x_y"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("metadata log", topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    ("no partitions", topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    ("no replicas", topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("negative factor", topic(factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("too many replicas", topic(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("both", topic(partitions=0, factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("unknown broker", topic("n", -1, -1, assign=[(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("broker twice", topic("n", -1, -1, assign=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("empty replicas", topic("n", -1, -1, assign=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("hole", topic("n", -1, -1, assign=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (
        "partition twice",
        topic("n", -1, -1, assign=[(0, [1]), (0, [1])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    ("negative partition", topic("n", -1, -1, assign=[(-1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assigned and counted", topic("n", 1, -1, assign=[(0, [1])]), ErrorCode.INVALID_REQUEST),
    ("assigned and factor", topic("n", -1, 1, assign=[(0, [1])]), ErrorCode.INVALID_REQUEST),
    ("unknown setting", topic(configs=[("nope", "1")]), ErrorCode.INVALID_CONFIG),
    ("bad number", topic(configs=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG),
    ("empty number", topic(configs=[("retention.ms", "")]), ErrorCode.INVALID_CONFIG),
    ("out of range", topic(configs=[("retention.ms", "-2")]), ErrorCode.INVALID_CONFIG),
    ("null", topic(configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
    ("bad policy", topic(configs=[("cleanup.policy", "foo")]), ErrorCode.INVALID_CONFIG),
    ("small segment", topic(configs=[("segment.bytes", "1")]), ErrorCode.INVALID_CONFIG),
    ("remote storage", topic(configs=[("remote.storage.enable", "true")]), ErrorCode.INVALID_CONFIG),
    (
        "lags",
        topic(configs=[("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")]),
        ErrorCode.INVALID_CONFIG,
    ),
    (
        "bad value before bad factor",
        topic(factor=0, configs=[("retention.ms", "x")]),
        ErrorCode.INVALID_CONFIG,
    ),
]


@pytest.mark.parametrize(("asked", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_topic(asked: CreatableTopic, code: ErrorCode) -> None:
    decision = manager().decide_create(one_node("t1", "x.y"), CreateTopicsRequest(topics=[asked]))
    (result,) = decision.response.topics
    assert (result.error_code, decision.records) == (code, [])
    assert result.error_message
    assert (result.num_partitions, result.replication_factor, result.topic_id) == (-1, -1, ZERO_UUID)


@pytest.mark.parametrize(
    "asked",
    [
        topic("__consumer_offsets"),
        topic("n", -1, -1, assign=[(1, [1]), (0, [1])]),
        topic(configs=[("cleanup.policy", "")]),
        topic(configs=[("retention.ms", " 5 ")]),
        topic(configs=[("retention.ms", "1"), ("retention.ms", "2")]),
    ],
)
def test_accepted_topic(asked: CreatableTopic) -> None:
    records, codes = created(one_node(), asked)
    assert codes == {asked.name: 0}
    assert records


def test_good_topics_are_created_beside_bad_ones() -> None:
    records, codes = created(one_node("t1"), topic("good"), topic("t1"), topic("bad", 0))
    assert codes == {"good": 0, "t1": 36, "bad": 37}
    assert [r.name for r in records if isinstance(r, TopicRecord)] == ["good"]


def test_a_topic_named_twice_has_one_result_and_is_not_created() -> None:
    records, codes = created(one_node(), topic("d"), topic("e"), topic("d", 2))
    assert codes == {"e": 0, "d": 42}
    assert len(records) == 2


def test_colliding_names_in_one_request_are_both_created() -> None:
    assert created(one_node(), topic("a.b"), topic("a_b"))[1] == {"a.b": 0, "a_b": 0}


def test_validate_only_decides_the_same_and_records_nothing() -> None:
    records, codes = created(one_node("t1"), topic("a", 2), topic("t1"), validate_only=True)
    assert (records, codes) == ([], {"a": 0, "t1": 36})


def test_topics_of_one_request_go_on_where_the_last_stopped() -> None:
    image = replayed([*features(), broker_record(1), broker_record(2), broker_record(3)])
    records, _ = created(image, topic("a"), topic("b", 2), topic("c"))
    assert [r.leader for r in records if isinstance(r, PartitionRecord)] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    "topics",
    [
        [topic("big", 10_001)],
        [topic("big", 10_000)],
        [topic("big", 1_000_000_000)],
        [topic("a", 5_000), topic("b", 5_000)],
        [topic("small"), topic("big", 10_001)],
    ],
    ids=["10001", "10000 and their topic", "a billion", "together", "small beside big"],
)
def test_too_large_request_is_refused_as_a_whole(topics: list[CreatableTopic]) -> None:
    with pytest.raises(ApiError) as refused:
        created(one_node(), *topics)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_largest_request() -> None:
    records, codes = created(one_node(), topic("big", 9_999))
    assert codes == {"big": 0}
    assert len(records) == 10_000


def test_topic_on_fenced_brokers_only() -> None:
    image = replayed([*features(), broker_record(1, fenced=True), broker_record(2)])
    assert created(image, topic("n", -1, -1, assign=[(0, [1])]))[1] == {"n": 39}
    records, _ = created(image, topic("n", -1, -1, assign=[(0, [1, 2])]))
    assert (records[1].leader, records[1].isr, records[1].replicas) == (2, [2], [1, 2])


# DeleteTopics

T1 = topic_id_of("t1")
UNKNOWN = uuid.UUID(int=77)


@pytest.mark.parametrize(
    ("states", "expected", "deleted"),
    [
        ([("t1", None)], {("t1", T1, 0)}, 1),
        ([(None, T1)], {("t1", T1, 0)}, 1),
        ([("nope", None)], {("nope", ZERO_UUID, 3)}, 0),
        ([(None, UNKNOWN)], {(None, UNKNOWN, 100)}, 0),
        ([(None, None)], {(None, ZERO_UUID, 42)}, 0),
        ([("t1", T1)], {("t1", T1, 42)}, 0),
        ([("t1", None), ("t1", None)], {("t1", ZERO_UUID, 42)}, 0),
        ([(None, T1), (None, T1)], {(None, T1, 42)}, 0),
        ([("t1", None), (None, T1)], {("t1", T1, 42)}, 0),
        ([("t1", None), ("nope", None)], {("t1", T1, 0), ("nope", ZERO_UUID, 3)}, 1),
        ([("__cluster_metadata", None)], {("__cluster_metadata", ZERO_UUID, 3)}, 0),
        ([], set(), 0),
    ],
)
def test_delete_topics(
    states: list[tuple[str | None, uuid.UUID | None]], expected: set[tuple[Any, ...]], deleted: int
) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id or ZERO_UUID) for name, topic_id in states]
    )
    decision = manager().decide_delete(one_node("t1"), request, 6)
    assert {(r.name, r.topic_id, r.error_code) for r in decision.response.responses} == expected
    assert decision.records == [RemoveTopicRecord(topic_id=T1)] * deleted


def test_old_versions_name_topics_in_a_list() -> None:
    decision = manager().decide_delete(one_node("t1"), DeleteTopicsRequest(topic_names=["t1", "x", "x"]), 5)
    assert [(r.name, r.error_code) for r in decision.response.responses] == [("x", 42), ("t1", 0)]


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    request = DeleteTopicsRequest(topic_names=["t1"])
    decision = manager(delete_topic_enable="false").decide_delete(one_node("t1"), request, version)
    assert [r.error_code for r in decision.response.responses] == [code]
    assert decision.records == []


# CreatePartitions


def extended(*topics: tuple[str, int, Any], validate_only: bool = False) -> tuple[list[Any], dict[str, int]]:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if given is None
                else [CreatePartitionsAssignment(broker_ids=b) for b in given],
            )
            for name, count, given in topics
        ],
        validate_only=validate_only,
    )
    image = replayed(topic_records("t1", [[1]] * 3), one_node())
    decision = manager().decide_create_partitions(image, request)
    return decision.records, {result.name: result.error_code for result in decision.response.results}


@pytest.mark.parametrize(
    ("asked", "code", "made"),
    [
        (("t1", 5, None), 0, [3, 4]),
        (("t1", 3, None), 37, []),
        (("t1", 1, None), 37, []),
        (("t1", -1, None), 37, []),
        (("nope", 3, None), 3, []),
        (("", 3, None), 3, []),
        (("t1", 4, [[1]]), 0, [3]),
        (("t1", 6, [[1]]), 39, []),
        (("t1", 4, [[2]]), 39, []),
        (("t1", 4, [[]]), 39, []),
        (("t1", 4, []), 39, []),
    ],
)
def test_create_partitions(asked: tuple[str, int, Any], code: int, made: list[int]) -> None:
    records, codes = extended(asked)
    assert codes == {asked[0]: code}
    assert [record.partition_id for record in records] == made
    assert {record.topic_id for record in records} <= {T1}


def test_create_partitions_of_a_topic_named_twice() -> None:
    assert extended(("t1", 4, None), ("t1", 5, None)) == ([], {"t1": 42})


def test_create_partitions_validate_only() -> None:
    assert extended(("t1", 9, None), validate_only=True) == ([], {"t1": 0})


def test_create_partitions_is_bounded_too() -> None:
    with pytest.raises(ApiError) as refused:
        extended(("t1", 10_004, None))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert len(extended(("t1", 10_003, None))[0]) == 10_000


def test_the_refusal_of_a_request_has_a_result_for_every_item() -> None:
    create = CreateTopicsRequest(topics=[topic("a"), topic("b")])
    assert [(t.name, t.error_code) for t in refuse_create(create, ErrorCode.REQUEST_TIMED_OUT).topics] == [
        ("a", 7),
        ("b", 7),
    ]
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=T1)], topic_names=["x"])
    refused = refuse_delete(delete, ErrorCode.REQUEST_TIMED_OUT).responses
    assert [(r.name, r.topic_id, r.error_code) for r in refused] == [("x", ZERO_UUID, 7), (None, T1, 7)]
    extend = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a")])
    results = refuse_create_partitions(extend, ErrorCode.REQUEST_TIMED_OUT, "late").results
    assert [(r.name, r.error_code, r.error_message) for r in results] == [("a", 7, "late")]


# Several brokers


def several(*registered: int) -> MetadataImage:
    return replayed([*features(), *(broker_record(each) for each in registered)])


def test_other_topics_get_the_default_factor() -> None:
    _, response = manager().decide_create(several(1, 2, 3), CreateTopicsRequest(topics=[topic("t", 2, -1)]))
    assert response.topics[0].replication_factor == 1


def test_replicas_on_brokers_that_are_down() -> None:
    image = replayed([*features(), broker_record(1), broker_record(2), broker_record(3, fenced=True)])
    records, codes = created(image, topic("t", 3, 3), topic("u", 1, 4), topic("v", -1, -1, assign=[(0, [3])]))
    assert codes == {
        "t": 0,
        "u": ErrorCode.INVALID_REPLICATION_FACTOR,
        "v": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    partitions = [each for each in records if isinstance(each, PartitionRecord)]
    assert [each.leader for each in partitions] == [1, 2, 1]
    assert all(3 in each.replicas and 3 not in each.isr for each in partitions)


def test_leaders_stay_even_over_many_topics_of_several_requests() -> None:
    image = several(0, 1, 2, 3, 4, 5)
    for number in range(20):
        topics = [topic(f"t{number}-{each}", 1 + (number + each) % 4, 2) for each in range(3)]
        records, codes = created(image, *topics)
        assert set(codes.values()) == {0}
        image = replayed(records, image)
        led = preferred_leaders(image)
        assert max(led.values()) - min(led[broker] for broker in range(6)) <= 1


def test_added_partitions_continue_their_topic_on_the_least_loaded_brokers() -> None:
    image = replayed(
        [*topic_records("t", [[1, 2], [2, 3]]), *topic_records("u", [[3, 1]] * 4)], several(1, 2, 3, 4)
    )
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)])
    records, _ = manager().decide_create_partitions(image, request)
    assert [each.replicas[0] for each in records if isinstance(each, PartitionRecord)] == [4, 3]


def test_partitions_that_are_created_and_deleted_are_charged() -> None:
    image = replayed(topic_records("three", [[1]] * 3), one_node("one"))
    charged: list[int] = []
    made = manager()
    made.decide_create(image, CreateTopicsRequest(topics=[topic("new", 4)]), charge=charged.append)
    grown = CreatePartitionsTopic(name="one", count=3, assignments=None)
    made.decide_create_partitions(image, CreatePartitionsRequest(topics=[grown]), charged.append)
    named = [DeleteTopicState(name=name) for name in ("three", "one")]
    made.decide_delete(image, DeleteTopicsRequest(topics=named), 6, charged.append)
    assert charged == [4, 2, 3, 1]


def test_partitions_are_charged_before_their_assignment_is_checked() -> None:
    charged: list[int] = []
    grown = CreatePartitionsTopic(
        name="one", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[77])] * 2
    )
    _, response = manager().decide_create_partitions(
        one_node("one"), CreatePartitionsRequest(topics=[grown]), charged.append
    )
    assert (response.results[0].error_code, charged) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, [2])


def test_topics_whose_deletion_the_quota_does_not_allow_are_refused() -> None:
    def charge(count: int) -> None:
        if count > 1:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    image = replayed(topic_records("three", [[1]] * 3), one_node("one"))
    named = [DeleteTopicState(name=name) for name in ("three", "one")]
    records, response = manager().decide_delete(image, DeleteTopicsRequest(topics=named), 6, charge)
    assert records == [RemoveTopicRecord(topic_id=topic_id_of("one"))]
    assert {each.name: each.error_code for each in response.responses} == {
        "three": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        "one": ErrorCode.NONE,
    }


def test_the_default_replication_factor() -> None:
    image = replayed([*features(), *(broker_record(each) for each in (1, 2, 3))])
    request = CreateTopicsRequest(topics=[topic("new", 1, -1)])
    records = manager(default_replication_factor="3").decide_create(image, request).records
    assert [len(each.replicas) for each in records if isinstance(each, PartitionRecord)] == [3]


def test_all_topics_of_a_request_together_may_not_add_too_many_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (topics, decision):
        monkeypatch.setattr(module, "RECORDS_PER_REQUEST_MAX", 5)
    image = one_node("a", "b")
    grown = [CreatePartitionsTopic(name=name, count=4, assignments=None) for name in ("a", "b")]
    request = CreatePartitionsRequest(topics=grown[:1])
    assert len(manager().decide_create_partitions(image, request).records) == 3
    with pytest.raises(ApiError) as refused:
        manager().decide_create_partitions(image, CreatePartitionsRequest(topics=grown))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
