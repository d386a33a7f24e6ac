"""The controller's pure core: its image, and one manager per subject that decides on it.

A decision is a function of the image and a request; it returns records and a response and changes nothing.
`image` is the controller's own: it includes records that are appended but not committed yet, so that the next
decision is made on top of them. `ControllerRuntime` advances it and resets it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller.config_rules import ConfigRules
from ottla.controller.configs import ConfigManager
from ottla.controller.topics import TopicManager
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage, ResourceType
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

    def replayed(self, records: Iterable[Message], offset: int, epoch: int) -> MetadataImage:
        """The image after the records of one decision, the last of which gets `offset`."""
        delta = MetadataDelta(self.image)
        transactions = TransactionFilter()
        for record in records:
            for counted in transactions.admit(record):
                delta.replay(counted)
        return delta.apply(offset, epoch)

    def decide_start(
        self, initial_levels: Iterable[FeatureLevelRecord], *, transaction_open: bool
    ) -> list[Message]:
        """The first records of a new leader: the abort of an open transaction, the levels of a new cluster."""
        records: list[Message] = []
        if transaction_open:
            records.append(AbortTransactionRecord(reason="the controller stopped before its end"))
        if METADATA_VERSION not in self.image.features:
            levels = list(initial_levels)
            records += levels
            if any(level.name == "eligible.leader.replicas.version" for level in levels):
                # Eligible leaders depend on this value, so it is stored for the cluster: brokers must not differ.
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
