"""Combinations a broker does not start with."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, ConfigRefused
from ottla.config.static_rules import check_static


@pytest.mark.parametrize(
    "settings",
    [
        {"log.roll.ms": "0"},
        {"log.roll.jitter.ms": "-1"},
        {"log.retention.ms": "0"},
        {"log.retention.hours": "0"},
        {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
        {"log.cleaner.dedupe.buffer.size": "1000"},
        {"queued.max.request.bytes": "1000"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": ""},
        {"max.connections.per.ip.overrides": "here"},
        {"replica.fetch.wait.max.ms": "40000"},
        {"offsets.topic.compression.codec": "9"},
    ],
    ids=lambda settings: ",".join(f"{name}={value}" for name, value in settings.items()),
)
def test_refused_with_the_name(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigRefused) as refused:
        check_static(BrokerConfig(settings))
    assert refused.value.name in settings or refused.value.name == "log.retention.ms"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"log.retention.ms": "-1"},
        {"queued.max.request.bytes": "-1"},
        {"socket.request.max.bytes": "500000000"},
    ],
    ids=str,
)
def test_accepted(settings: dict[str, str]) -> None:
    check_static(BrokerConfig(settings))
