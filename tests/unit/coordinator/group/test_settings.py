"""Settings of groups and their overrides."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.settings import ConsumerSettings, GroupSettings
from ottla.metadata.image import ResourceType
from ottla.metadata.records import ConfigRecord
from tests.support.group_bench import GroupBench
from tests.support.metadata import replayed


def test_a_group_without_overrides_uses_the_broker_settings() -> None:
    config = BrokerConfig({"group.consumer.heartbeat.interval.ms": "6000"})
    assert GroupSettings(config).consumer({}) == ConsumerSettings(45_000, 6_000, 1_000)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("consumer.session.timeout.ms", "50000", ConsumerSettings(50_000, 5_000, 1_000)),
        ("consumer.session.timeout.ms", "1", ConsumerSettings(45_000, 5_000, 1_000)),
        ("consumer.session.timeout.ms", "90000", ConsumerSettings(60_000, 5_000, 1_000)),
        ("consumer.heartbeat.interval.ms", "7000", ConsumerSettings(45_000, 7_000, 1_000)),
        ("consumer.heartbeat.interval.ms", "99999", ConsumerSettings(45_000, 15_000, 1_000)),
        ("consumer.assignment.interval.ms", "0", ConsumerSettings(45_000, 5_000, 0)),
        ("consumer.assignment.interval.ms", "99999", ConsumerSettings(45_000, 5_000, 15_000)),
    ],
)
def test_overrides_are_limited_by_the_broker(name: str, text: str, expected: ConsumerSettings) -> None:
    assert GroupSettings(BrokerConfig()).consumer({name: text}) == expected


def test_overrides_apply_to_one_group() -> None:
    bench = GroupBench("t")
    record = ConfigRecord(
        resource_type=ResourceType.GROUP,
        resource_name="g",
        name="consumer.session.timeout.ms",
        value="50000",
    )
    context = bench.machine.context
    context.image = replayed([record], bench.image)
    assert context.consumer_settings("g").session_timeout_ms == 50_000
    assert context.consumer_settings("h").session_timeout_ms == 45_000


def test_the_migration_policy_is_case_insensitive() -> None:
    config = BrokerConfig({"group.consumer.migration.policy": "UpGrade"})
    assert GroupSettings(config).consumer_migration_policy == "upgrade"


def test_offset_retention_is_configured_in_minutes() -> None:
    config = BrokerConfig({"offsets.retention.minutes": "3"})
    assert GroupSettings(config).offsets_retention_ms == 180_000
