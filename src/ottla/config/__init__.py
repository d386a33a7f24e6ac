"""Settings: all names of Kafka 4.3, their types and checks, their effective values and descriptions.

`tables` has the declarations and `keys` combines them; `broker` has the static values of a broker, `resolve` the
layers above them, `static_rules` and `dynamic_rules` the rules between settings, and `dynamic` the values that
change while a broker runs.
"""

from __future__ import annotations

from ottla.config.broker import BrokerConfig, BrokerValues
from ottla.config.key import (
    ConfigKey,
    ConfigRefused,
    ConfigType,
    Importance,
    Scope,
    Status,
    Value,
    parse,
    to_text,
)
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.resolve import (
    BrokerLayers,
    ConfigEntry,
    Source,
    Synonym,
    effective_topic_values,
    overlay_topic,
    topic_defaults,
)

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "BrokerLayers",
    "BrokerValues",
    "ConfigEntry",
    "ConfigKey",
    "ConfigRefused",
    "ConfigType",
    "Importance",
    "Scope",
    "Source",
    "Status",
    "Synonym",
    "Value",
    "effective_topic_values",
    "overlay_topic",
    "parse",
    "to_text",
    "topic_defaults",
]
