"""Administrator: creates the topics, and configures internal topics so that they are compacted often."""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.errors import ErrorCode
from ottla.testing.sim.clients.client import GROUP, RETRIABLE, TXN, Client
from ottla.testing.sim.cluster import OFFSETS_TOPIC, TXN_TOPIC, Cluster
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

E = ErrorCode
_TOPIC = 2
_DOWNGRADE = 2


class Admin(Client):
    """Runs before all other clients, and calls `when_ready`."""

    when_ready: Callable[[], None]

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0) -> None:
        super().__init__(cluster, client_id, incarnation)

    async def run(self) -> None:
        cluster = self.cluster
        configs = [
            CreatableTopicConfig(name=name, value=value) for name, value in cluster.topic_settings.items()
        ]
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=cluster.replication_factor,
                configs=configs,
            )
            for name, count in cluster.topics.items()
        ]
        # Brokers that have not registered yet do not count for the replication factor.
        later = RETRIABLE | {E.INVALID_REPLICATION_FACTOR}
        request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
        while True:
            response = await self.retried(self.connection, request, 7, CreateTopicsResponse)
            errors = [
                self.expect(topic.error_code, E.NONE, E.TOPIC_ALREADY_EXISTS, later, doing="CreateTopics")
                for topic in response.topics
            ]
            if not any(error in later for error in errors):
                break
            await self.process.backoff()
        for kind in (GROUP, TXN):
            await self.find_coordinator(kind, self.client_id)
        await self._configure()
        await self._set_level()
        metadata = await self.retried(self.connection, MetadataRequest(topics=None), 12, MetadataResponse)
        cluster.topic_ids = {topic.name or "": topic.topic_id for topic in metadata.topics}
        self.when_ready()

    async def _set_level(self) -> None:
        """Set the version of the transaction protocol; the newest is the default."""
        level = self.cluster.transaction_version
        if level == 2:
            return
        update = FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=_DOWNGRADE
        )
        request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update])
        while True:
            response = await self.retried(self.connection, request, 1, UpdateFeaturesResponse)
            if self.expect(response.error_code, E.NONE, RETRIABLE, doing="UpdateFeatures") is E.NONE:
                return
            await self.process.backoff()

    async def _configure(self) -> None:
        """Configure short segments for internal topics: a segment can be compacted once it is not the active one."""
        settings = {"segment.ms": "3000", "min.cleanable.dirty.ratio": "0.01"}
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=_TOPIC,
                    resource_name=topic,
                    configs=[AlterableConfig(name=name, value=value) for name, value in settings.items()],
                )
                for topic in (OFFSETS_TOPIC, TXN_TOPIC)
            ]
        )
        while True:
            response = await self.retried(self.connection, request, 1, IncrementalAlterConfigsResponse)
            errors = [
                self.expect(result.error_code, E.NONE, RETRIABLE, doing="IncrementalAlterConfigs")
                for result in response.responses
            ]
            if not any(errors):
                return
            await self.process.backoff()
