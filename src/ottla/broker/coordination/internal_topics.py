"""The internal topics: how many partitions and replicas they are created with, and their settings.

They are created on demand like other missing topics, but not with the default settings of topics: their records must
not expire, and their number of partitions can never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.metadata.topic_names import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

Settings = Callable[[BrokerConfig], dict[str, str]]


def _offsets(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
    }


def _transactions(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(config.int("transaction.state.log.min.isr")),
        "segment.bytes": str(config.int("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    }


def _share_groups(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(config.int("share.coordinator.state.topic.min.isr")),
        "retention.ms": "-1",
        "segment.bytes": str(config.int("share.coordinator.state.topic.segment.bytes")),
    }


# Name of the topic: prefix of the settings with its numbers, and its own settings
_INTERNAL: Final[dict[str, tuple[str, Settings]]] = {
    GROUP_TOPIC: ("offsets.topic", _offsets),
    TRANSACTION_TOPIC: ("transaction.state.log", _transactions),
    SHARE_TOPIC: ("share.coordinator.state.topic", _share_groups),
}


def creation(name: str, config: BrokerConfig) -> CreatableTopic:
    """Return the request to create a missing topic, internal or not."""
    if name not in _INTERNAL:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    prefix, settings = _INTERNAL[name]
    return CreatableTopic(
        name=name,
        num_partitions=config.int(f"{prefix}.num.partitions"),
        replication_factor=config.int(f"{prefix}.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings(config).items()],
    )
