"""Rules for the stored settings of topics, brokers, groups and client metrics subscriptions.

`ottla.config` checks one value at a time; here all settings of a resource are checked together. The error code
depends on the resource, as in Kafka: a bad topic or group value is INVALID_CONFIG, a bad broker value is
INVALID_REQUEST, and a client metrics subscription has both.

A request that sets an unknown name of a topic, group or subscription is refused; unknown names that an older
release stored are kept. Unknown broker names are stored, as in Kafka: plugins define their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.broker import BrokerConfig
from ottla.config.dynamic_rules import check_dynamic
from ottla.config.key import ConfigKey, ConfigRefused, ConfigType, Value, parse
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.resolve import BrokerLayers, ConfigEntry, describe_topic, overlay_topic, topic_defaults
from ottla.metadata.image import MetadataImage, ResourceType

_KEYS: Final[Mapping[int, Mapping[str, ConfigKey]]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
}

_MIN_ISR: Final = "min.insync.replicas"
_METRICS_INTERVAL_MS: Final = range(100, 3_600_001)
_METRICS_SELECTORS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

# Group settings that two broker settings limit.
_GROUP_BOUNDS: Final = {
    f"{kind}.{name}": (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    for kind, names in {
        "consumer": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
        "share": (
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "record.lock.duration.ms",
            "assignment.interval.ms",
            "partition.max.record.locks",
            "delivery.count.limit",
        ),
        "streams": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
    }.items()
    for name in names
} | {"streams.num.standby.replicas": ("group.streams.max.standby.replicas",)}
_GROUP_KINDS: Final = ("consumer", "share", "streams")


class ConfigRules:
    """Checks the settings of all resources, with the broker settings of one node as defaults."""

    def __init__(self, config: BrokerConfig, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        # The last computed defaults, with the layers that they belong to, which keeps the ids of the mappings valid.
        self._defaults: tuple[tuple[int, int], BrokerLayers, Mapping[str, Value]] | None = None

    def layers(self, image: MetadataImage) -> BrokerLayers:
        """The static and dynamic settings of this node."""
        return BrokerLayers(
            self._config,
            image.config(ResourceType.BROKER, ""),
            image.config(ResourceType.BROKER, str(self._node_id)),
        )

    def topic_defaults(self, image: MetadataImage, broker_id: int | None = None) -> Mapping[str, Value]:
        """Values of the settings of a topic without own settings, by the settings of this node or of a broker."""
        layers = self.layers(image)
        if broker_id is not None:
            layers = replace(layers, dynamic_broker=image.config(ResourceType.BROKER, str(broker_id)))
        key = (id(layers.dynamic_default), id(layers.dynamic_broker))
        if self._defaults is None or self._defaults[0] != key:
            self._defaults = (key, layers, topic_defaults(layers))
        return self._defaults[2]

    def describe_topic(self, image: MetadataImage, configs: Mapping[str, str]) -> list[ConfigEntry]:
        """All settings of a topic whose own settings are `configs`."""
        return describe_topic(self.layers(image), configs)

    def list_default(self, resource_type: int, name: str) -> list[str] | None:
        """The default entries of a list setting; None if the setting is unknown or not a list."""
        key = _KEYS.get(resource_type, {}).get(name)
        if key is None or key.type is not ConfigType.LIST:
            return None
        return split_list(key.default)

    def check_topic(self, image: MetadataImage, configs: Mapping[str, str], changed: Collection[str]) -> None:
        """Refuse settings that a topic cannot have."""
        for name in changed:
            if name in configs and name not in TOPIC_KEYS:
                raise _invalid(f"unknown topic setting {name}")
        try:
            values = overlay_topic(self.topic_defaults(image), configs)
        except ConfigRefused as error:
            raise _invalid(str(error)) from error
        lag_min, lag_max = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
        if isinstance(lag_min, int) and isinstance(lag_max, int) and lag_min > lag_max:
            raise _invalid(f"min.compaction.lag.ms {lag_min} exceeds max.compaction.lag.ms {lag_max}")
        if values["remote.storage.enable"] and "remote.storage.enable" in configs:
            raise _invalid("remote.storage.enable=true needs remote storage, which this broker does not have")

    def check_broker(
        self, image: MetadataImage, name: str, configs: Mapping[str, str], changed: Collection[str]
    ) -> None:
        """Refuse settings that cannot be changed at run time, for one broker or for all (empty name)."""
        check_dynamic(configs, changed, self.layers(image), for_all_brokers=not name)
        if image.elr_enabled and _MIN_ISR in changed:
            if name:
                raise _invalid(
                    f"with eligible leader replicas {_MIN_ISR} can be set for all brokers or for topics only"
                )
            if _MIN_ISR not in configs:
                raise _invalid(f"with eligible leader replicas {_MIN_ISR} cannot be removed")

    def check_client_metrics(self, name: str, configs: Mapping[str, str]) -> None:
        """Refuse settings that a client metrics subscription cannot have."""
        if not name:
            raise _bad_request("the name of the client metrics subscription is missing")
        unknown = [each for each in configs if each not in CLIENT_METRICS_KEYS]
        if unknown:
            raise _bad_request(f"unknown client metrics setting {unknown[0]}")
        for each, text in configs.items():
            try:
                value = parse(CLIENT_METRICS_KEYS[each], text)
            except ConfigRefused as error:
                raise _invalid(str(error)) from error
            if each == "interval.ms" and value not in _METRICS_INTERVAL_MS:
                raise _bad_request(f"interval.ms={value}; allowed: 100 to 3600000")
        for pattern in split_list(configs.get("match")):
            _check_selector(pattern)

    def check_group(self, image: MetadataImage, configs: Mapping[str, str], changed: Collection[str]) -> None:
        """Refuse settings that a group cannot have."""
        layers = self.layers(image)
        values: dict[str, int] = {}
        for name, text in configs.items():
            key = GROUP_KEYS.get(name)
            if key is None:
                if name in changed:
                    raise _invalid(f"unknown group setting {name}")
                continue
            try:
                value = parse(key, text)
            except ConfigRefused as error:
                raise _invalid(str(error)) from error
            if isinstance(value, int):
                values[name] = value
        for name, value in values.items():
            for bound in _GROUP_BOUNDS.get(name, ()):
                limit = layers.value(bound) if bound in BROKER_KEYS else None
                if isinstance(limit, int) and (value < limit if ".min." in bound else value > limit):
                    raise _invalid(f"{name}={value}; the broker's {bound} is {limit}")
        for kind in _GROUP_KINDS:
            self._check_heartbeat(layers, kind, values)

    def _check_heartbeat(self, layers: BrokerLayers, kind: str, values: Mapping[str, int]) -> None:
        names = (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        if not any(name in values for name in names):
            return
        session, heartbeat = (values.get(name, layers.value(f"group.{name}")) for name in names)
        if isinstance(session, int) and isinstance(heartbeat, int) and session <= heartbeat:
            raise _invalid(f"{names[0]} ({session}) must be longer than {names[1]} ({heartbeat})")


def check_broker_name(name: str) -> None:
    """Refuse any resource name except the empty one (all brokers) and broker ids.

    A broker forwards requests about its own settings only (`broker.forwarding.config_resources`).
    """
    if name and not re.fullmatch(r"[+]?[0-9]+", name):
        raise _bad_request(f"{name!r} is not a broker id")


def split_list(text: str | None) -> list[str]:
    """The entries of a list setting, without empty ones."""
    return [part for part in (text or "").split(",") if part]


def _check_selector(pattern: str) -> None:
    name, separator, expression = pattern.partition("=")
    if not separator or name.strip() not in _METRICS_SELECTORS:
        raise _invalid(f"match entry {pattern!r} is not of the form selector=pattern")
    try:
        re.compile(expression.strip())
    except re.error as error:
        raise _invalid(f"match entry {pattern!r}: {error}") from error


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, text)


def _bad_request(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
