"""The internal topics: how many partitions and replicas they are created with, and their settings.

They are created on demand like other missing topics, but not with the default settings of topics: their records must
not expire, and their number of partitions can never change.

A replication factor that is configured is used as it is, as in Kafka. The default is limited by the number of brokers,
so that one node is sufficient, and min.insync.replicas by the replication factor. The replication factor of a topic
does not change by itself: while a new cluster is starting, the controllers that are to be brokers too count
as well as the brokers that have registered, and the topic is refused until there are enough of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
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


def creation(name: str, config: BrokerConfig, image: MetadataImage) -> CreatableTopic:
    """Return the request to create a missing topic, internal or not."""
    if name not in _INTERNAL:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    prefix, settings = _INTERNAL[name]
    factor = config.int(f"{prefix}.replication.factor")
    if f"{prefix}.replication.factor" not in config.explicit:
        factor = min(factor, _brokers_expected(config, image))
    values = settings(config)
    if "min.insync.replicas" in values and f"{prefix}.min.isr" not in config.explicit:
        values["min.insync.replicas"] = str(min(int(values["min.insync.replicas"]), factor))
    return CreatableTopic(
        name=name,
        num_partitions=config.int(f"{prefix}.num.partitions"),
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in values.items()],
    )


def _brokers_expected(config: BrokerConfig, image: MetadataImage) -> int:
    """The number of brokers: registered, or controllers of a cluster of combined nodes."""
    combined = "controller" in config.list("process.roles")
    voters = config.list("controller.quorum.voters") if combined else []
    return max(len(image.brokers), len(voters), 1)
