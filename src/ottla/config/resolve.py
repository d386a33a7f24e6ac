"""The effective value of a setting, and its description for DescribeConfigs.

A broker setting has four layers: dynamic for this broker, dynamic for all brokers, static, default. The default of a
topic or group setting is the value of the broker settings that are its synonyms. The order of precedence, the sources
and the way in which lists of synonyms are shortened are Kafka's.

All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from ottla.config.broker import BrokerConfig
from ottla.config.checks import ANYTHING
from ottla.config.key import ConfigKey, ConfigType, Importance, Scope, Status, Value, parse, to_text
from ottla.config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    Keys,
)

Texts = Mapping[str, str]


class Source(IntEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One value of a setting or of its synonyms, and its source."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(Struct, frozen=True):
    """One setting as DescribeConfigs describes it."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: ConfigType
    synonyms: list[Synonym]
    doc: str

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


class BrokerLayers(Struct, frozen=True):
    """The layers of the settings of one broker."""

    static: BrokerConfig
    dynamic_default: Texts = {}
    dynamic_broker: Texts = {}

    def value(self, name: str) -> Value:
        """The effective value of a broker setting."""
        key = BROKER_KEYS[name]
        if key.scope is not Scope.READ_ONLY:
            for layer in (self.dynamic_broker, self.dynamic_default):
                if name in layer:
                    return parse(key, layer[name])
        return self.static.value(name)

    def synonyms(self, name: str, names: Iterable[str]) -> list[Synonym]:
        """The values of `names` in all layers, in order of precedence, starting with the first one of `name`."""
        names = list(names)
        layers: list[tuple[Source, Callable[[str], str | None]]] = [
            (Source.DYNAMIC_BROKER, self.dynamic_broker.get),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default.get),
            (Source.STATIC_BROKER, self.static.explicit.get),
            (Source.DEFAULT, _default_text),
        ]
        found: list[Synonym] = []
        for source, lookup in layers:
            for each in names:
                text = lookup(each)
                if text is not None:
                    found.append(Synonym(each, text, source))
        first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[first:]


def _default_text(name: str) -> str | None:
    key = BROKER_KEYS.get(name)
    return None if key is None else key.default


_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BROKER_SYNONYMS = {name: family for family in _FAMILIES for name in family} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker settings that determine `name`, in order of precedence."""
    base = listener_setting(name)
    return (name, base) if base is not None else _BROKER_SYNONYMS.get(name, (name,))


# --- topics


def inherited_value(key: ConfigKey, layers: BrokerLayers) -> Value:
    """The value of a topic or group setting that is not set."""
    for name, factor in key.synonyms:
        value = layers.value(name)
        if value is None:
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            value *= factor
            if key.name == "retention.ms" and value < 0:
                return -1
        return value
    return None if key.default is None else parse(key, key.default)


def topic_defaults(layers: BrokerLayers) -> dict[str, Value]:
    """Typed values of all settings of a topic without own settings."""
    return {name: inherited_value(key, layers) for name, key in TOPIC_KEYS.items()}


def overlay_topic(defaults: Mapping[str, Value], topic: Texts) -> dict[str, Value]:
    """`defaults` with the topic's own settings; unknown names are ignored.

    `internal.segment.bytes`, which tests use for small segments, overrides `segment.bytes`.
    """
    values = dict(defaults)
    for name, text in topic.items():
        key = TOPIC_KEYS.get(name)
        if key is not None:
            values[name] = parse(key, text)
    if values["internal.segment.bytes"] is not None:
        values["segment.bytes"] = values["internal.segment.bytes"]
    return values


def effective_topic_values(
    static: BrokerConfig, dynamic_default: Texts, dynamic_broker: Texts, topic: Texts
) -> dict[str, Value]:
    """Typed values of all topic settings of one topic."""
    return overlay_topic(topic_defaults(BrokerLayers(static, dynamic_default, dynamic_broker)), topic)


def describe_topic(layers: BrokerLayers, topic: Texts) -> list[ConfigEntry]:
    """All settings of a topic, sorted by name."""
    return [
        _inheriting_entry(TOPIC_KEYS[name], layers, topic, Source.TOPIC) for name in _described(TOPIC_KEYS)
    ]


def describe_group(layers: BrokerLayers, group: Texts) -> list[ConfigEntry]:
    """All settings of a group, sorted by name."""
    return [
        _inheriting_entry(GROUP_KEYS[name], layers, group, Source.GROUP) for name in _described(GROUP_KEYS)
    ]


def _inheriting_entry(key: ConfigKey, layers: BrokerLayers, own: Texts, source: Source) -> ConfigEntry:
    value = parse(key, own[key.name]) if key.name in own else inherited_value(key, layers)
    synonyms: list[Synonym] = []
    if key.name in own:
        synonyms.append(Synonym(key.name, to_text(value), source))
    if key.synonyms:
        first = key.synonyms[0][0]
        synonyms += layers.synonyms(first, broker_synonyms(first))
    elif source is Source.GROUP:
        synonyms.append(Synonym(key.name, key.default, Source.DEFAULT))
    return _entry(key, to_text(value), synonyms, read_only=False)


def describe_client_metrics(subscription: Texts) -> list[ConfigEntry]:
    """All settings of a client metrics subscription, sorted by name."""
    entries = []
    for name in _described(CLIENT_METRICS_KEYS):
        key = CLIENT_METRICS_KEYS[name]
        own = [Synonym(name, subscription[name], Source.CLIENT_METRICS)] if name in subscription else []
        entries.append(_entry(key, subscription.get(name, key.default), own, read_only=False))
    return entries


# --- brokers


def describe_broker(layers: BrokerLayers) -> list[ConfigEntry]:
    """All settings of this broker, and other names that were set, at the start or at run time; sorted by name."""
    names = set(_described(BROKER_KEYS)) | layers.static.explicit.keys()
    names |= layers.dynamic_default.keys() | layers.dynamic_broker.keys()
    return [_broker_entry(name, layers) for name in sorted(names)]


def _broker_entry(name: str, layers: BrokerLayers) -> ConfigEntry:
    key = broker_key(name)
    synonyms = layers.synonyms(name, broker_synonyms(name))
    value = to_text(layers.value(name)) if name in BROKER_KEYS else synonyms[0].value
    return _entry(key, value, synonyms, read_only=key.scope is Scope.READ_ONLY)


def describe_dynamic_default(layers: BrokerLayers) -> list[ConfigEntry]:
    """The settings that were set for all brokers at run time."""
    entries = []
    for name, text in sorted(layers.dynamic_default.items()):
        key = broker_key(name)
        synonyms = [Synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER)]
        entries.append(_entry(key, text, synonyms, read_only=key.scope is Scope.READ_ONLY))
    return entries


def broker_key(name: str) -> ConfigKey:
    """The declaration of a broker setting; for an unknown name, one whose value is not shown.

    `listener.name.<listener>.<setting>` has the type of the setting, but is read-only, as in Kafka.
    """
    known = BROKER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)
    if known is not None:
        return known
    base = BROKER_KEYS.get(listener_setting(name) or "")
    type_ = ConfigType.UNKNOWN if base is None else base.type
    check = ANYTHING if base is None else base.check
    return ConfigKey(name, type_, None, Importance.LOW, Scope.READ_ONLY, Status.ACCEPTED, check, "")


def listener_setting(name: str) -> str | None:
    """The setting in `listener.name.<listener>.[<mechanism>.]<setting>`; None for any other name."""
    match = _LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return None
    rest = match[1]
    while rest not in BROKER_KEYS and "." in rest:
        rest = rest.partition(".")[2]
    return rest if rest in BROKER_KEYS else match[1]


_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def _described(keys: Keys) -> list[str]:
    return sorted(name for name, key in keys.items() if not key.internal)


def _entry(key: ConfigKey, value: str | None, synonyms: list[Synonym], *, read_only: bool) -> ConfigEntry:
    hidden = key.sensitive or key.type is ConfigType.UNKNOWN
    if hidden:
        synonyms = [synonym._replace(value=None) for synonym in synonyms]
    return ConfigEntry(
        name=key.name,
        value=None if hidden else value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        read_only=read_only,
        sensitive=hidden,
        type=key.type,
        synonyms=synonyms,
        doc=key.doc,
    )
