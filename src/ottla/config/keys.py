"""Every setting of Kafka 4.3 by name: of brokers, topics, groups and client metrics subscriptions.

The tables contain Kafka's defaults. Where `own_defaults` has another value, the keys here have that value.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from types import MappingProxyType

from msgspec.structs import replace

from ottla.config.key import ConfigKey
from ottla.config.own_defaults import OWN_BROKER_DEFAULTS, OWN_TOPIC_DEFAULTS, OwnDefault
from ottla.config.tables import (
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
    client_metrics,
    group,
    topic,
)

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
TOPIC_KEYS: Keys = _table(topic.KEYS, OWN_TOPIC_DEFAULTS)
DYNAMIC_ONLY_KEYS: Keys = _table(broker_replication.DYNAMIC_ONLY_KEYS, {})
GROUP_KEYS: Keys = _table(group.KEYS, {})
CLIENT_METRICS_KEYS: Keys = _table(client_metrics.KEYS, {})
