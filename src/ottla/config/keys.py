"""Every setting that Kafka 4.3 knows, by name: of brokers, topics, groups and client metrics subscriptions.

The tables hold Kafka's defaults; where `own_defaults` names another, the keys here carry ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from types import MappingProxyType

from msgspec.structs import replace

from ottla.config import (
    broker_groups,
    broker_log,
    broker_metrics,
    broker_network,
    broker_node,
    broker_remote,
    broker_replication,
    broker_security,
    broker_share,
    broker_transactions,
    group_keys,
    metrics_keys,
    topic_keys,
)
from ottla.config.key import ConfigKey
from ottla.config.own_defaults import OWN_BROKER_DEFAULTS, OWN_TOPIC_DEFAULTS, OwnDefault

Keys = MappingProxyType[str, ConfigKey]


def _table(rows: Iterable[ConfigKey], own: dict[str, OwnDefault]) -> Keys:
    table = {row.name: row for row in rows}
    for name, default in own.items():
        table[name] = replace(table[name], default=default.text)
    return MappingProxyType(table)


_BROKER_TABLES = (
    broker_node,
    broker_network,
    broker_log,
    broker_replication,
    broker_groups,
    broker_share,
    broker_transactions,
    broker_security,
    broker_metrics,
    broker_remote,
)

BROKER_KEYS: Keys = _table(chain.from_iterable(table.KEYS for table in _BROKER_TABLES), OWN_BROKER_DEFAULTS)
TOPIC_KEYS: Keys = _table(topic_keys.KEYS, OWN_TOPIC_DEFAULTS)
DYNAMIC_ONLY_KEYS: Keys = _table(broker_replication.DYNAMIC_ONLY_KEYS, {})
GROUP_KEYS: Keys = _table(group_keys.KEYS, {})
CLIENT_METRICS_KEYS: Keys = _table(metrics_keys.KEYS, {})
