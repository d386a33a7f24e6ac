"""How the topics that brokers keep for themselves are made: partitions, replicas and settings of each.

They come into being like any other missing topic, when a client asks for them, but never with a topic's usual
defaults: what is written there must not expire, and its number of partitions can never change.
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


# name: where its numbers are configured, and its settings
_INTERNAL: Final[dict[str, tuple[str, Settings]]] = {
    GROUP_TOPIC: ("offsets.topic", _offsets),
    TRANSACTION_TOPIC: ("transaction.state.log", _transactions),
    SHARE_TOPIC: ("share.coordinator.state.topic", _share_groups),
}


def creation(name: str, config: BrokerConfig) -> CreatableTopic:
    """The request to make a topic that is missing, be it internal or a client's."""
    if name not in _INTERNAL:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    prefix, settings = _INTERNAL[name]
    return CreatableTopic(
        name=name,
        num_partitions=config.int(f"{prefix}.num.partitions"),
        replication_factor=config.int(f"{prefix}.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings(config).items()],
    )
