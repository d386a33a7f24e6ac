"""The controller's pure core: its image, and one manager per subject that decides on it.

A decision is a function of the image and a request; it returns records and a response and changes nothing.
`image` is the controller's own: it includes records that are appended but not committed yet, so that the next
decision is made on top of them. `index` and `acls` describe that image. `ControllerRuntime` advances all and resets
them.
`sessions` is what this controller has heard of the brokers since it leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller.brokers.sessions import Sessions
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.controller.partitions.replica_index import ReplicaIndex
from ottla.controller.partitions.topics import TopicManager
from ottla.controller.security.tokens import TokenManager
from ottla.controller.settings.config_rules import ConfigRules
from ottla.controller.settings.configs import ConfigManager
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage, ResourceType
from ottla.metadata.records import AbortTransactionRecord, ConfigRecord, FeatureLevelRecord
from ottla.metadata.transactions import TransactionFilter
from ottla.security.acls.index import EMPTY_INDEX
from ottla.wire.schema import Message


class Replayed(NamedTuple):
    """The image after a decision, and the change that led to it; None if nothing changed."""

    image: MetadataImage
    delta: MetadataDelta | None


class Controller:
    """State and decisions of one controller."""

    def __init__(self, config: BrokerConfig, node_id: int, rng: Random) -> None:
        self.rules = ConfigRules(config, node_id)
        self.image = EMPTY_IMAGE
        self.index = ReplicaIndex()
        self.acls = EMPTY_INDEX
        self.rng = rng
        self.sessions = Sessions(
            config.int("broker.session.timeout.ms") / 1000,
            1.5 * config.int("broker.heartbeat.interval.ms") / 1000,
        )
        self.topics = TopicManager(config, self.rules, rng)
        self.configs = ConfigManager(self.rules, node_id)
        self.tokens = TokenManager(config, rng)
        self.on_change: Callable[[MetadataDelta, MetadataImage], None] = lambda _, __: None
        """Called after each decision that changed the image."""
        self.config = config
        self.node_id = node_id

    def view(self) -> ClusterView:
        """The current state, for one decision."""
        return ClusterView(self.image, self.index, self.rules)

    def reset(self, image: MetadataImage) -> None:
        """Start from a committed image."""
        self.image = image
        self.index.load(image)
        self.acls = EMPTY_INDEX.updated(image.acls, image.acls)

    def advance(self, after: Replayed) -> None:
        """Follow a decision that was appended."""
        self.image = after.image
        if after.delta is not None:
            self.index.update(after.delta, after.image)
            if after.delta.changed_acls:
                self.acls = self.acls.updated(after.image.acls, after.delta.changed_acls)
            self.on_change(after.delta, after.image)

    def replayed(self, records: Iterable[Message], offset: int, epoch: int) -> Replayed:
        """The state after the records of one decision, the last of which gets `offset`."""
        delta = MetadataDelta(self.image)
        transactions = TransactionFilter()
        for record in records:
            for counted in transactions.admit(record):
                delta.replay(counted)
        return Replayed(delta.apply(offset, epoch), delta)

    def decide_start(self, bootstrap: Iterable[Message], *, transaction_open: bool) -> list[Message]:
        """The first records of a new leader: the abort of an open transaction, the bootstrap records of a new cluster.

        Bootstrap records are feature levels, and SCRAM users if the operator has named some.
        """
        records: list[Message] = []
        if transaction_open:
            records.append(AbortTransactionRecord(reason="the controller stopped before its end"))
        if METADATA_VERSION not in self.image.features:
            first = list(bootstrap)
            records += first
            levels = (each for each in first if isinstance(each, FeatureLevelRecord))
            if any(level.name == "eligible.leader.replicas.version" for level in levels):
                # Eligible leaders depend on this value, so it is stored for the cluster: brokers must not differ.
                value = self.config.text("min.insync.replicas")
                records.append(
                    ConfigRecord(
                        resource_type=ResourceType.BROKER,
                        resource_name="",
                        name="min.insync.replicas",
                        value=value,
                    )
                )
        return records
