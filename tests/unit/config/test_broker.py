"""Typed access to the static settings."""

from __future__ import annotations

import pytest

from ottla.base.errors import InvariantViolation
from ottla.config import BrokerConfig, ConfigRefused


def test_values_and_texts() -> None:
    config = BrokerConfig({"num.partitions": " 3 ", "some.plugin": "x", "log.dirs": "a, b"})
    assert config.int("num.partitions") == config.long("num.partitions") == 3
    assert config.text("num.partitions") == "3"
    assert config.text("broker.rack") is None
    assert config.value("broker.rack") is None
    assert config.list("log.dirs") == ["a", "b"]
    assert config.bool("delete.topic.enable") is True
    assert config.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.str("compression.type") == "producer"
    assert config.explicit["some.plugin"] == "x"


def test_the_wrong_type_is_our_bug() -> None:
    config = BrokerConfig()
    for ask in (config.int, config.bool, config.float, config.list):
        with pytest.raises(InvariantViolation, match=r"compression\.type"):
            ask("compression.type")
    with pytest.raises(InvariantViolation, match=r"broker\.rack"):
        config.str("broker.rack")
    with pytest.raises(InvariantViolation, match=r"delete\.topic"):
        config.int("delete.topic.enable")


def test_a_bad_value_is_refused_at_once() -> None:
    with pytest.raises(ConfigRefused, match=r"num\.partitions"):
        BrokerConfig({"num.partitions": "none"})
