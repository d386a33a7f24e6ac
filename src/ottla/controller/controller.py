"""The controller's pure core: the image, and one manager per concern that decides on it.

A decision is a function of the image and a request; it yields records and an answer and changes nothing.
Only `replay` of committed records changes the image, here as on a standby. Deciding again on the image that
follows is the driver's business, and so is everything that waits.

Concurrency: owned by the driver's task.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base.errors import LocalError
from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller import features
from ottla.controller.config_rules import ConfigRules
from ottla.controller.configs import ConfigManager
from ottla.controller.topics import TopicManager
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, METADATA_VERSION, ResourceType
from ottla.metadata.records import AbortTransactionRecord, ConfigRecord, FeatureLevelRecord
from ottla.metadata.transactions import TransactionFilter
from ottla.wire.schema import Message


class Controller:
    """State and decisions of one controller."""

    def __init__(self, config: BrokerConfig, node_id: int, rng: Random) -> None:
        rules = ConfigRules(config, node_id)
        self.image = EMPTY_IMAGE
        self.topics = TopicManager(config, rules, rng)
        self.configs = ConfigManager(rules, node_id)
        self._config = config
        self._transactions = TransactionFilter()

    def load(self, records: Iterable[Message], offset: int, epoch: int) -> None:
        """Replay everything a stopped node left behind, as one change."""
        delta = MetadataDelta(EMPTY_IMAGE)
        for record in records:
            for counted in self._transactions.admit(record):
                delta.replay(counted)
        image = delta.apply(offset, epoch)
        beyond = features.unsupported(image)
        if beyond:
            raise LocalError(f"the cluster uses features this release does not support: {', '.join(beyond)}")
        self.image = image

    def replay(self, records: Iterable[Message], offset: int, epoch: int) -> MetadataDelta:
        """Make committed records true; the new image is in place afterwards."""
        delta = MetadataDelta(self.image)
        for record in records:
            for counted in self._transactions.admit(record):
                delta.replay(counted)
        self.image = delta.apply(offset, epoch)
        return delta

    def decide_start(self, initial_levels: Iterable[FeatureLevelRecord]) -> list[Message]:
        """What a leader writes first: an abort of what was left open, and the beginnings of a new cluster."""
        records: list[Message] = []
        if self._transactions.open:
            records.append(AbortTransactionRecord(reason="the controller stopped before its end"))
        if METADATA_VERSION not in self.image.features:
            levels = list(initial_levels)
            records += levels
            if any(level.name == "eligible.leader.replicas.version" for level in levels):
                # Eligible leaders depend on this value, so the cluster keeps it and brokers no longer differ.
                value = self._config.text("min.insync.replicas")
                records.append(
                    ConfigRecord(
                        resource_type=ResourceType.BROKER,
                        resource_name="",
                        name="min.insync.replicas",
                        value=value,
                    )
                )
        return records
