"""Which value counts and how DescribeConfigs tells it; the expected rows were seen on Apache Kafka 4.3.1."""

from __future__ import annotations

from ottla.config import BROKER_KEYS, BrokerConfig, BrokerLayers, ConfigEntry, effective_topic_values
from ottla.config.resolve import (
    describe_broker,
    describe_client_metrics,
    describe_dynamic_default,
    describe_group,
    describe_topic,
)

Row = tuple[str | None, int, list[tuple[str, str | None, int]]]


def _row(entries: list[ConfigEntry], name: str) -> Row:
    entry = next(entry for entry in entries if entry.name == name)
    return entry.value, int(entry.source), [(s.name, s.value, int(s.source)) for s in entry.synonyms]


def _layers(
    static: dict[str, str] | None = None,
    default: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
) -> BrokerLayers:
    return BrokerLayers(BrokerConfig(static), default or {}, broker or {})


def test_a_topic_setting_overrides_the_broker_setting_which_stays_a_synonym() -> None:
    layers = _layers(broker={"log.retention.ms": "777777"})
    assert _row(describe_topic(layers, {"retention.ms": "12345"}), "retention.ms") == (
        "12345",
        1,
        [("retention.ms", "12345", 1), ("log.retention.ms", "777777", 2), ("log.retention.hours", "168", 5)],
    )


def test_topic_setting_whose_first_synonym_is_null_has_no_synonyms() -> None:
    described = describe_topic(_layers(), {})
    assert _row(described, "retention.ms") == ("604800000", 5, [])
    assert _row(described, "segment.ms") == ("604800000", 5, [])
    assert _row(described, "flush.ms") == ("9223372036854775807", 5, [])


def test_topic_setting_follows_the_dynamic_default_of_all_brokers() -> None:
    described = describe_topic(_layers(default={"log.roll.ms": "99999"}), {})
    assert _row(described, "segment.ms") == (
        "99999",
        3,
        [("log.roll.ms", "99999", 3), ("log.roll.hours", "168", 5)],
    )


def test_min_insync_replicas_of_a_fresh_cluster_is_a_dynamic_default() -> None:
    described = describe_topic(_layers(default={"min.insync.replicas": "1"}), {})
    expected = [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 5)]
    assert _row(described, "min.insync.replicas") == ("1", 3, expected)


def test_an_emptied_list_is_a_value() -> None:
    described = describe_topic(_layers(), {"cleanup.policy": ""})
    expected = [("cleanup.policy", "", 1), ("log.cleanup.policy", "delete", 5)]
    assert _row(described, "cleanup.policy") == ("", 1, expected)


def test_topic_lists_every_public_setting_once_sorted_and_writable() -> None:
    described = describe_topic(_layers(), {})
    names = [entry.name for entry in described]
    assert names == sorted(set(names))
    assert len(names) == 33
    assert "internal.segment.bytes" not in names
    assert not any(entry.read_only or entry.sensitive for entry in described)
    assert next(e for e in described if e.name == "flush.messages").is_default


def test_broker_settings_list_their_layers() -> None:
    layers = _layers(
        {"log.retention.hours": "24", "node.id": "1"}, {"log.roll.ms": "99999"}, {"log.retention.ms": "5"}
    )
    described = describe_broker(layers)
    assert _row(described, "log.retention.ms") == (
        "5",
        2,
        [("log.retention.ms", "5", 2), ("log.retention.hours", "24", 4), ("log.retention.hours", "168", 5)],
    )
    assert _row(described, "log.retention.hours")[:2] == ("24", 4)
    assert _row(described, "log.roll.ms")[2][0] == ("log.roll.ms", "99999", 3)
    assert _row(described, "log.retention.minutes") == (None, 5, [])
    assert _row(described, "num.io.threads") == ("8", 5, [("num.io.threads", "8", 5)])


def test_read_only_means_not_dynamic() -> None:
    read_only = {entry.name: entry.read_only for entry in describe_broker(_layers())}
    assert read_only["node.id"]
    assert not read_only["log.retention.ms"]
    assert not read_only["listeners"]
    assert len(read_only) == sum(not key.internal for key in BROKER_KEYS.values())


def test_secrets_and_unknown_names_are_hidden() -> None:
    layers = _layers(
        {"ssl.key.password": "hunter2"},
        {"foo.bar": "hunter3"},
        {"listener.name.plaintext.ssl.keystore.password": "hunter4"},
    )
    described = describe_broker(layers)
    assert "hunter" not in repr(described)
    for name, kind, source in (
        ("ssl.key.password", 9, 4),
        ("foo.bar", 0, 3),
        ("listener.name.plaintext.ssl.keystore.password", 9, 2),
    ):
        entry = next(entry for entry in described if entry.name == name)
        assert (entry.sensitive, entry.value, entry.type, entry.source) == (True, None, kind, source)


def test_a_setting_of_one_listener_has_the_general_one_as_synonym() -> None:
    name = "listener.name.plaintext.max.connections"
    described = describe_broker(_layers(default={name: "50"}, broker={name: "60"}))
    assert _row(described, name) == (
        "60",
        2,
        [(name, "60", 2), (name, "50", 3), ("max.connections", "10000", 5)],
    )
    assert next(entry for entry in described if entry.name == name).read_only


def test_dynamic_defaults_are_listed_alone() -> None:
    layers = _layers(default={"min.insync.replicas": "1", "foo.bar": "x"}, broker={"log.retention.ms": "5"})
    described = describe_dynamic_default(layers)
    assert [entry.name for entry in described] == ["foo.bar", "min.insync.replicas"]
    assert _row(described, "min.insync.replicas") == ("1", 3, [("min.insync.replicas", "1", 3)])
    assert _row(described, "foo.bar") == (None, 3, [("foo.bar", None, 3)])


def test_groups_inherit_from_the_broker_or_their_own_default() -> None:
    own = {"share.isolation.level": "read_committed", "consumer.session.timeout.ms": "50000"}
    described = describe_group(_layers(), own)
    assert _row(described, "consumer.session.timeout.ms") == (
        "50000",
        8,
        [("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)],
    )
    assert _row(described, "share.isolation.level") == (
        "read_committed",
        8,
        [("share.isolation.level", "read_committed", 8), ("share.isolation.level", "read_uncommitted", 5)],
    )
    assert _row(described, "share.heartbeat.interval.ms") == (
        "5000",
        5,
        [("group.share.heartbeat.interval.ms", "5000", 5)],
    )
    assert len(described) == 17


def test_client_metrics_list_what_is_set_and_defaults() -> None:
    described = describe_client_metrics({"interval.ms": "1000"})
    assert _row(described, "interval.ms") == ("1000", 7, [("interval.ms", "1000", 7)])
    assert _row(described, "match") == ("", 5, [])
    assert _row(described, "metrics") == ("", 5, [])


def test_typed_values_of_a_topic() -> None:
    static = BrokerConfig({"log.retention.minutes": "2", "log.roll.hours": "1"})
    values = effective_topic_values(static, {"compression.type": "zstd"}, {"compression.type": "lz4"}, {})
    assert values["retention.ms"] == 120_000
    assert values["segment.ms"] == 3_600_000
    assert values["compression.type"] == "lz4"
    assert values["flush.messages"] == 1
    values = effective_topic_values(static, {}, {}, {"cleanup.policy": "compact", "no.such": "x"})
    assert values["cleanup.policy"] == ["compact"]
    assert "no.such" not in values


def test_any_negative_retention_of_the_broker_means_no_limit() -> None:
    values = effective_topic_values(BrokerConfig({"log.retention.hours": "-7"}), {}, {}, {})
    assert values["retention.ms"] == -1


def test_read_only_settings_cannot_be_smuggled_in_dynamically() -> None:
    layers = _layers(default={"num.partitions": "9"})
    assert layers.value("num.partitions") == 1


def test_tests_can_have_tiny_segments() -> None:
    values = effective_topic_values(BrokerConfig(), {}, {}, {"internal.segment.bytes": "500"})
    assert values["segment.bytes"] == 500
