"""Current values of the configurations of groups and offsets.

A consumer group may override some of them (resource type GROUP). An override is limited to the current bounds of the
broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.config.broker import BrokerValues


class _Bounded(NamedTuple):
    """The configuration names of one setting that a group may override."""

    own: str
    broker: str
    lowest: str
    highest: str


# In the order of the fields below.
_CONSUMER: Final = (
    _Bounded(
        "consumer.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    _Bounded(
        "consumer.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    _Bounded(
        "consumer.assignment.interval.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
)


class ConsumerSettings(NamedTuple):
    """The effective settings of one consumer group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class GroupSettings:
    """Typed access to the configurations; dynamic changes take effect at the next access."""

    __slots__ = ("_config",)

    def __init__(self, config: BrokerValues) -> None:
        self._config = config

    # Offsets

    @property
    def offset_metadata_max_bytes(self) -> int:
        return self._config.int("offset.metadata.max.bytes")

    @property
    def offsets_retention_ms(self) -> int:
        return self._config.int("offsets.retention.minutes") * 60_000

    @property
    def offsets_retention_check_interval_ms(self) -> int:
        return self._config.int("offsets.retention.check.interval.ms")

    # Classic groups

    @property
    def min_session_timeout_ms(self) -> int:
        return self._config.int("group.min.session.timeout.ms")

    @property
    def max_session_timeout_ms(self) -> int:
        return self._config.int("group.max.session.timeout.ms")

    @property
    def initial_rebalance_delay_ms(self) -> int:
        return self._config.int("group.initial.rebalance.delay.ms")

    @property
    def max_size(self) -> int:
        """The maximum number of members of a classic group."""
        return self._config.int("group.max.size")

    # Consumer groups

    @property
    def protocols(self) -> list[str]:
        """The enabled group protocols: "classic", "consumer", …"""
        return self._config.list("group.coordinator.rebalance.protocols")

    @property
    def consumer_max_size(self) -> int:
        return self._config.int("group.consumer.max.size")

    @property
    def consumer_assignors(self) -> list[str]:
        """The names of the enabled assignors, the default first."""
        return self._config.list("group.consumer.assignors")

    @property
    def consumer_migration_policy(self) -> str:
        """disabled, downgrade, upgrade or bidirectional, in lower case."""
        return self._config.str("group.consumer.migration.policy").lower()

    @property
    def consumer_regex_refresh_interval_ms(self) -> int:
        return self._config.int("group.consumer.regex.refresh.interval.ms")

    def consumer(self, own: Mapping[str, str]) -> ConsumerSettings:
        """The effective settings of a consumer group with the overrides `own`."""
        return ConsumerSettings(*(self._bounded(names, own) for names in _CONSUMER))

    def _bounded(self, names: _Bounded, own: Mapping[str, str]) -> int:
        config = self._config
        text = own.get(names.own)
        if text is None:
            return config.int(names.broker)
        return max(config.int(names.lowest), min(int(text), config.int(names.highest)))
