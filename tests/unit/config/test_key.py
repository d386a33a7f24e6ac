"""Texts to values: Kafka's parsing rules, refusals that say what is allowed, and no secret in a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigRefused, parse, to_text
from ottla.config.key import refused

KEYS = {**BROKER_KEYS, **TOPIC_KEYS, **GROUP_KEYS}


# Each row was put to Kafka 4.3.1's own parser and checks.
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.io.threads", "+7", 7),
        ("num.io.threads", " 7 ", 7),
        ("log.retention.ms", "-5", -5),
        ("delete.topic.enable", "TRUE", True),
        ("log.cleaner.min.cleanable.ratio", "1e-1", 0.1),
        ("log.cleaner.min.cleanable.ratio", "0.5d", 0.5),
        ("log.cleanup.policy", "", []),
        ("process.roles", " broker , controller ", ["broker", "controller"]),
        ("advertised.listeners", None, None),
        ("controller.quorum.voters", "", []),
        ("controller.quorum.voters", "1@localhost:9093,2@[::1]:9093", ["1@localhost:9093", "2@[::1]:9093"]),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
        ("remote.log.storage.manager.class.name", None, None),
        ("leader.replication.throttled.replicas", "*", ["*"]),
        ("leader.replication.throttled.replicas", "0:1,0:1", ["0:1", "0:1"]),
        ("leader.replication.throttled.replicas", "0:1,", ["0:1", ""]),
        ("cleanup.policy", "compact, delete", ["compact", "delete"]),
        ("compression.gzip.level", "-1", -1),
        ("share.auto.offset.reset", "by_duration:PT1H", "by_duration:PT1H"),
        ("log.cleanup.policy", "compact, delete,compact", ["compact", "delete"]),
        ("listeners", "a,a", ["a"]),
    ],
)
def test_accepted(name: str, text: str | None, value: object) -> None:
    assert parse(KEYS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listeners", ""),
        ("listeners", "a,,b"),
        ("listeners", None),
        ("log.cleanup.policy", "none"),
        ("process.roles", "zookeeper"),
        ("controller.quorum.voters", "localhost:9093"),
        ("controller.quorum.voters", None),
        ("controller.quorum.bootstrap.servers", "a"),
        ("compression.type", "GZIP"),
        ("compression.type", None),
        ("compression.gzip.level", "0"),
        ("num.io.threads", "0x10"),
        ("num.io.threads", "7.0"),
        ("num.io.threads", "3000000000"),
        ("num.io.threads", ""),
        ("num.io.threads", None),
        ("num.io.threads", "1_000"),
        ("log.cleaner.min.cleanable.ratio", "half"),
        ("delete.topic.enable", "yes"),
        ("log.message.timestamp.type", "createtime"),
        ("remote.log.storage.manager.class.name", ""),
        ("authorizer.class.name", None),
        ("leader.replication.throttled.replicas", "a:1"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("share.auto.offset.reset", "by_duration:x"),
        ("share.auto.offset.reset", "by_duration:P"),
    ],
)
def test_refused_with_name_and_what_is_allowed(name: str, text: str | None) -> None:
    with pytest.raises(ConfigRefused, match=r"allowed: ") as refused:
        parse(KEYS[name], text)
    assert refused.value.name == name
    assert str(refused.value).startswith(name)


def test_a_bad_secret_is_not_repeated() -> None:
    assert "hunter2" not in str(refused(KEYS["ssl.key.password"], "hunter2", "too short"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_texts_are_read_back(value: float) -> None:
    text = to_text(value)
    assert text is not None
    assert "e" not in text
    key = KEYS["log.cleaner.io.max.bytes.per.second"]
    assert parse(key, text) == value


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for name in ("num.io.threads", "log.cleaner.io.max.bytes.per.second", "cleanup.policy", "listeners"):
        try:
            value = parse(KEYS[name], text)
        except ConfigRefused:
            continue
        assert parse(KEYS[name], to_text(value)) == value
