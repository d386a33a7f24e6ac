"""Settings of a running broker: layers, subscribers, and stored values that make no sense."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.config.dynamic import DynamicConfig

ALL, OWN, OTHER = (4, ""), (4, "1"), (4, "2")


def _config() -> DynamicConfig:
    return DynamicConfig(BrokerConfig({"message.max.bytes": "1000"}), 1)


def test_the_nearer_layer_counts_and_what_is_removed_gives_way() -> None:
    config = _config()
    assert config.int("message.max.bytes") == 1000
    config.update({ALL: {"message.max.bytes": "2000"}, OTHER: {"message.max.bytes": "9"}})
    assert config.int("message.max.bytes") == 2000
    config.update({ALL: {"message.max.bytes": "2000"}, OWN: {"message.max.bytes": "3000"}})
    assert config.int("message.max.bytes") == 3000
    config.update({})
    assert config.int("message.max.bytes") == 1000


def test_subscribers_hear_what_changed_once_it_has() -> None:
    config = _config()
    heard: list[tuple[frozenset[str], int]] = []
    config.subscribe(lambda names: heard.append((names, config.int("message.max.bytes"))))
    stored = {ALL: {"message.max.bytes": "2000", "some.plugin": "x"}}
    config.update(stored)
    config.update(stored)
    config.update({ALL: {"message.max.bytes": "2000"}})
    assert heard == [(frozenset({"message.max.bytes"}), 2000)]


def test_topics_follow() -> None:
    config = _config()
    assert config.topic_values({})["max.message.bytes"] == 1000
    config.update({OWN: {"message.max.bytes": "3000", "log.retention.ms": "60000"}})
    values = config.topic_values({"retention.ms": "5"})
    assert (values["max.message.bytes"], values["retention.ms"]) == (3000, 5)
    assert config.topic_values({})["retention.ms"] == 60000


def test_an_invalid_stored_value_is_ignored_and_logged_once() -> None:
    config = _config()
    stored = {ALL: {"message.max.bytes": "many", "log.retention.ms": "7"}}
    complaints = config.update(stored)
    assert len(complaints) == 1
    assert "message.max.bytes" in complaints[0]
    assert config.int("message.max.bytes") == 1000
    assert config.value("log.retention.ms") == 7
    assert config.update(stored) == []


def test_settings_that_need_a_restart_are_not_applied() -> None:
    config = _config()
    config.update({ALL: {"num.partitions": "7"}})
    assert config.int("num.partitions") == 1
