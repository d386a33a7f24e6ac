"""The answers of Apache Kafka 4.3.1 on one node (broker 1), observed, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.controller.settings.config_rules import ConfigRules
from ottla.controller.settings.configs import ConfigManager, refuse_alter, refuse_incremental_alter
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
)
from ottla.wire.messages import alter_configs as old
from ottla.wire.messages import incremental_alter_configs as inc
from tests.support.metadata import one_node, replayed, topic_records

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32

IMAGE = replayed(
    [
        *topic_records("c1", configs={"segment.ms": "9"}),
        ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas", value="1"),
    ],
    one_node(),
)


def manager() -> ConfigManager:
    return ConfigManager(ConfigRules(BrokerConfig({"node.id": "1"}), 1), 1)


def incremental(*resources: tuple[int, str, list[Any]], **more: Any) -> inc.IncrementalAlterConfigsRequest:
    return inc.IncrementalAlterConfigsRequest(
        resources=[
            inc.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[inc.AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in entries],
            )
            for kind, name, entries in resources
        ],
        **more,
    )


def replacing(*resources: tuple[int, str, list[Any]], **more: Any) -> old.AlterConfigsRequest:
    return old.AlterConfigsRequest(
        resources=[
            old.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[old.AlterableConfig(name=n, value=v) for n, v in entries],
            )
            for kind, name, entries in resources
        ],
        **more,
    )


def altered(*resources: Any, image: MetadataImage = IMAGE) -> tuple[list[tuple[str, str | None]], list[int]]:
    decision = manager().decide_incremental_alter(image, incremental(*resources))
    codes = [response.error_code for response in decision.response.responses]
    for response in decision.response.responses:
        assert (response.error_message is None) == (response.error_code == 0)
    return [(r.name, r.value) for r in decision.records if isinstance(r, ConfigRecord)], codes


TOPICS: list[tuple[str, str, list[Any], int, list[Any]]] = [
    ("set", "c1", [("retention.ms", SET, "5")], 0, [("retention.ms", "5")]),
    ("set the same", "c1", [("segment.ms", SET, "9")], 0, []),
    ("delete", "c1", [("segment.ms", DELETE, None)], 0, [("segment.ms", None)]),
    ("delete what is not set", "c1", [("retention.ms", DELETE, None)], 0, []),
    ("delete an unknown name", "c1", [("nope", DELETE, "5")], 0, []),
    ("unknown topic", "nope", [("retention.ms", SET, "5")], 3, []),
    ("value comes before existence", "nope", [("retention.ms", SET, "x")], 40, []),
    ("no topic", "", [("retention.ms", SET, "5")], 42, []),
    ("bad name", "a b", [("retention.ms", SET, "5")], 17, []),
    ("unknown setting", "c1", [("nope", SET, "5")], 40, []),
    ("append to a number", "c1", [("retention.ms", APPEND, "5")], 40, []),
    ("append to the unknown", "c1", [("nope", APPEND, "5")], 40, []),
    ("append", "c1", [("cleanup.policy", APPEND, "compact")], 0, [("cleanup.policy", "delete,compact")]),
    ("append twice", "c1", [("cleanup.policy", APPEND, "delete")], 0, [("cleanup.policy", "delete")]),
    ("append nonsense", "c1", [("cleanup.policy", APPEND, "foo")], 40, []),
    ("subtract", "c1", [("cleanup.policy", SUBTRACT, "delete")], 0, [("cleanup.policy", "")]),
    ("null", "c1", [("retention.ms", SET, None)], 42, []),
    ("null appended", "c1", [("cleanup.policy", APPEND, None)], 42, []),
    ("no such operation", "c1", [("retention.ms", 9, "5")], -1, []),
    ("setting twice", "c1", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")], 42, []),
    ("nothing", "c1", [], 0, []),
    ("one of two is bad", "c1", [("retention.ms", SET, "7"), ("segment.ms", SET, "x")], 40, []),
]


@pytest.mark.parametrize(
    ("name", "entries", "code", "records"), [row[1:] for row in TOPICS], ids=[row[0] for row in TOPICS]
)
def test_topic_settings(name: str, entries: list[Any], code: int, records: list[Any]) -> None:
    assert altered((TOPIC, name, entries)) == (records, [code])


BROKERS: list[tuple[str, str, list[Any], int, list[Any]]] = [
    ("one broker", "1", [("log.cleaner.threads", SET, "2")], 0, [("log.cleaner.threads", "2")]),
    ("all brokers", "", [("log.cleaner.threads", SET, "2")], 0, [("log.cleaner.threads", "2")]),
    ("no number", "x", [("log.cleaner.threads", SET, "2")], 42, []),
    ("read-only", "1", [("num.partitions", SET, "2")], 42, []),
    ("read-only for all", "", [("node.id", SET, "2")], 42, []),
    ("unknown name", "1", [("nope.x", SET, "2")], 0, [("nope.x", "2")]),
    ("bad number", "1", [("log.cleaner.threads", SET, "x")], 42, []),
    ("out of range", "1", [("log.cleaner.threads", SET, "-4")], 42, []),
    ("per broker for all", "", [("listeners", SET, "PLAINTEXT://:1")], 42, []),
    (
        "append",
        "1",
        [("log.cleanup.policy", APPEND, "compact")],
        0,
        [("log.cleanup.policy", "delete,compact")],
    ),
    ("append to a number", "1", [("log.cleaner.threads", APPEND, "1")], 40, []),
    ("append to the unknown", "1", [("nope.x", APPEND, "1")], 40, []),
    ("null", "1", [("log.cleaner.threads", SET, None)], 42, []),
    (
        "delete what is not set",
        "1",
        [("background.threads", DELETE, None)],
        0,
        [("background.threads", None)],
    ),
    ("delete read-only", "1", [("num.partitions", DELETE, None)], 0, [("num.partitions", None)]),
    ("name of a topic setting", "1", [("retention.ms", SET, "5")], 0, [("retention.ms", "5")]),
    ("no such operation", "1", [("log.cleaner.threads", 9, "5")], 42, []),
    ("min isr for all", "", [("min.insync.replicas", SET, "2")], 0, [("min.insync.replicas", "2")]),
    ("min isr of one broker", "1", [("min.insync.replicas", SET, "2")], 40, []),
    ("min isr removed", "", [("min.insync.replicas", DELETE, None)], 40, []),
]


@pytest.mark.parametrize(
    ("name", "entries", "code", "records"), [row[1:] for row in BROKERS], ids=[row[0] for row in BROKERS]
)
def test_broker_settings(name: str, entries: list[Any], code: int, records: list[Any]) -> None:
    assert altered((BROKER, name, entries)) == (records, [code])


def test_min_isr_of_a_broker_without_eligible_leaders() -> None:
    image = one_node(**{"eligible.leader.replicas.version": 0})
    assert altered((BROKER, "1", [("min.insync.replicas", SET, "2")]), image=image)[1] == [0]


OTHERS: list[tuple[str, int, str, list[Any], int]] = [
    ("subscription", METRICS, "m1", [("interval.ms", SET, "1000")], 0),
    ("metrics", METRICS, "m1", [("metrics", SET, "org."), ("match", SET, "client_id=.*")], 0),
    ("metrics appended", METRICS, "m1", [("metrics", APPEND, "foo.")], 40),
    ("unknown metrics setting", METRICS, "m1", [("nope", SET, "1000")], 42),
    ("interval too short", METRICS, "m1", [("interval.ms", SET, "5")], 42),
    ("interval too long", METRICS, "m1", [("interval.ms", SET, "99999999")], 42),
    ("interval no number", METRICS, "m1", [("interval.ms", SET, "x")], 40),
    ("no selector", METRICS, "m1", [("match", SET, "foo")], 40),
    ("unknown selector", METRICS, "m1", [("match", SET, "foo=bar")], 40),
    ("bad pattern", METRICS, "m1", [("match", SET, "client_id=[")], 40),
    ("subscription without name", METRICS, "", [("interval.ms", SET, "1000")], 42),
    ("group", GROUP, "g1", [("consumer.session.timeout.ms", SET, "50000")], 0),
    ("unknown group setting", GROUP, "g1", [("nope", SET, "50000")], 40),
    ("group no number", GROUP, "g1", [("consumer.session.timeout.ms", SET, "x")], 40),
    ("group too low", GROUP, "g1", [("consumer.session.timeout.ms", SET, "1")], 40),
    ("group too high", GROUP, "g1", [("consumer.session.timeout.ms", SET, "10000000")], 40),
    ("group without name", GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42),
    ("logger", LOGGER, "1", [("kafka.server", SET, "INFO")], 40),
    ("logger appended", LOGGER, "1", [("kafka.server", APPEND, "INFO")], 42),
    ("logger elsewhere", LOGGER, "2", [("kafka.server", SET, "INFO")], 42),
    ("logger nowhere", LOGGER, "", [("kafka.server", SET, "INFO")], 42),
    ("type 0", 0, "c1", [("retention.ms", SET, "5")], 42),
    ("type 3", 3, "c1", [("retention.ms", SET, "5")], 42),
    ("type 99", 99, "c1", [("retention.ms", SET, "5")], 42),
]


@pytest.mark.parametrize(
    ("kind", "name", "entries", "code"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS]
)
def test_other_resources(kind: int, name: str, entries: list[Any], code: int) -> None:
    records, codes = altered((kind, name, entries))
    assert codes == [code]
    assert bool(records) == (code == 0)


def test_resource_twice_is_refused_both_times() -> None:
    entry = [("retention.ms", SET, "5")]
    assert altered((TOPIC, "c1", entry), (TOPIC, "c1", entry)) == ([], [42, 42])


def test_resources_stand_for_themselves() -> None:
    records, codes = altered(
        (TOPIC, "c1", [("segment.ms", SET, "x")]), (BROKER, "1", [("log.cleaner.threads", SET, "1")])
    )
    assert (records, codes) == ([("log.cleaner.threads", "1")], [40, 0])


def test_validate_only_records_nothing() -> None:
    request = incremental(
        (TOPIC, "c1", [("retention.ms", SET, "5")]),
        (TOPIC, "nope", [("retention.ms", SET, "5")]),
        validate_only=True,
    )
    decision = manager().decide_incremental_alter(IMAGE, request)
    assert [r.error_code for r in decision.response.responses] == [0, 3]
    assert decision.records == []


def test_what_an_older_release_stored_does_not_stand_in_the_way() -> None:
    stored = ConfigRecord(resource_type=TOPIC, resource_name="c1", name="message.format.version", value="3.0")
    image = replayed([stored], IMAGE)
    assert altered((TOPIC, "c1", [("retention.ms", SET, "5")]), image=image)[1] == [0]


REPLACED: list[tuple[str, int, str, list[Any], int, list[Any]]] = [
    ("replace", TOPIC, "c1", [("retention.ms", "5")], 0, [("retention.ms", "5"), ("segment.ms", None)]),
    ("the same", TOPIC, "c1", [("segment.ms", "9")], 0, []),
    ("nothing", TOPIC, "c1", [], 0, [("segment.ms", None)]),
    ("unknown topic", TOPIC, "nope", [("segment.ms", "6")], 3, []),
    ("null", TOPIC, "c1", [("segment.ms", None)], 42, []),
    ("bad number", TOPIC, "c1", [("segment.ms", "x")], 40, []),
    ("twice", TOPIC, "c1", [("segment.ms", "1"), ("segment.ms", "2")], 42, []),
    ("type 3", 3, "c1", [("segment.ms", "1")], 42, []),
    ("broker", BROKER, "1", [("log.cleaner.threads", "1")], 0, [("log.cleaner.threads", "1")]),
    ("read-only", BROKER, "1", [("node.id", "1")], 42, []),
    ("broker bad number", BROKER, "1", [("log.cleaner.threads", "x")], 42, []),
    ("min isr left out", BROKER, "", [("log.cleaner.threads", "1")], 40, []),
    ("logger", LOGGER, "1", [("kafka.server", "INFO")], 42, []),
    ("subscription", METRICS, "m1", [("interval.ms", "100")], 0, [("interval.ms", "100")]),
]


@pytest.mark.parametrize(
    ("kind", "name", "entries", "code", "records"),
    [row[1:] for row in REPLACED],
    ids=[row[0] for row in REPLACED],
)
def test_alter_configs(kind: int, name: str, entries: list[Any], code: int, records: list[Any]) -> None:
    decision = manager().decide_alter(IMAGE, replacing((kind, name, entries)))
    assert [response.error_code for response in decision.response.responses] == [code]
    assert [(r.name, r.value) for r in decision.records if isinstance(r, ConfigRecord)] == records


def test_alter_configs_of_a_resource_twice() -> None:
    request = replacing((TOPIC, "c1", [("segment.ms", "1")]), (TOPIC, "c1", [("segment.ms", "2")]))
    decision = manager().decide_alter(IMAGE, request)
    assert [response.error_code for response in decision.response.responses] == [42, 42]


def test_the_refusal_of_a_request_has_a_result_for_every_resource() -> None:
    code = ErrorCode.KAFKA_STORAGE_ERROR
    refused = refuse_incremental_alter(incremental((TOPIC, "a", []), (BROKER, "1", [])), code).responses
    assert [(r.resource_type, r.resource_name, r.error_code) for r in refused] == [(2, "a", 56), (4, "1", 56)]
    also = refuse_alter(replacing((TOPIC, "a", [])), code, "why").responses
    assert [(r.resource_name, r.error_code, r.error_message) for r in also] == [("a", 56, "why")]


@pytest.mark.parametrize(
    ("kind", "resource", "entry", "cleared"),
    [
        (TOPIC, "c1", ("min.insync.replicas", SET, "2"), ["c1"]),
        (BROKER, "", ("min.insync.replicas", SET, "2"), [""]),
        (TOPIC, "c1", ("retention.ms", SET, "2"), []),
    ],
)
def test_a_new_minimum_clears_the_eligible_leaders(
    kind: int, resource: str, entry: tuple[str, int, str], cleared: list[str]
) -> None:
    request = incremental((kind, resource, [entry]))
    records, _ = manager().decide_incremental_alter(IMAGE, request)
    assert [each.topic_name for each in records if isinstance(each, ClearElrRecord)] == cleared
    replaced, _ = manager().decide_alter(IMAGE, replacing((kind, resource, [(entry[0], entry[2])])))
    assert [each.topic_name for each in replaced if isinstance(each, ClearElrRecord)] == cleared
    without = replayed([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)], IMAGE)
    records, _ = manager().decide_incremental_alter(without, request)
    assert not any(isinstance(each, ClearElrRecord) for each in records)


def test_values_are_appended_to_and_removed_from_the_stored_list() -> None:
    stored = ConfigRecord(resource_type=TOPIC, resource_name="c1", name="cleanup.policy", value="compact")
    image = replayed([stored], IMAGE)
    for operation, value, expected in (
        (APPEND, "delete", "compact,delete"),
        (APPEND, "compact", None),
        (SUBTRACT, "delete", None),
    ):
        request = incremental((TOPIC, "c1", [("cleanup.policy", operation, value)]))
        records = manager().decide_incremental_alter(image, request).records
        assert [each.value for each in records if isinstance(each, ConfigRecord)] == (
            [] if expected is None else [expected]
        )


def test_a_value_does_not_grow_beyond_the_length_of_a_string() -> None:
    key = "leader.replication.throttled.replicas"
    stored = ConfigRecord(resource_type=TOPIC, resource_name="c1", name=key, value="1:1," * 8000 + "2:1")
    image = replayed([stored], IMAGE)
    for added, code in (("3:1," * 190 + "3:1", ErrorCode.NONE), ("3" * 800 + ":1", ErrorCode.INVALID_CONFIG)):
        request = incremental((TOPIC, "c1", [(key, APPEND, added)]))
        assert manager().decide_incremental_alter(image, request).response.responses[0].error_code == code


def test_settings_of_a_node_that_is_not_registered_are_refused() -> None:
    controller = RegisterControllerRecord(controller_id=7)
    image = replayed([controller], IMAGE)
    for name, code in (("1", 0), ("7", 0), ("8", 102), ("", 0)):
        request = incremental((BROKER, name, [("log.retention.ms", SET, "100000")]))
        records, response = manager().decide_incremental_alter(image, request)
        assert (response.responses[0].error_code, len(records)) == (code, 0 if code else 1)
        (replaced,) = manager().decide_alter(image, replacing((BROKER, name, []))).response.responses
        assert replaced.error_code == (code or (40 if not name else 0))
