"""The controller's pure core with one partition, without a quorum: every decision is committed at once.

All decisions are those of `ottla.controller`. Each version of the metadata is kept, so that brokers can apply them in
order and late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random
from ottla.config.broker import BrokerConfig
from ottla.controller.brokers.heartbeats import decide_fence, decide_heartbeat
from ottla.controller.brokers.registration import ANY_CLUSTER, decide_register_broker
from ottla.controller.controller import Controller
from ottla.controller.partitions.alter_partition import decide_alter_partition
from ottla.controller.partitions.elections import decide_balance
from ottla.controller.settings.features import initial_records
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage, PartitionImage, ResourceType
from ottla.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from ottla.wire.schema import Message

TOPIC: Final = "t"
TOPIC_ID: Final = UUID(int=77)
_ALTER_PARTITION_VERSION: Final = 3
_FEATURES: Final = [
    Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
    for each in SUPPORTED_FEATURES
]


class PartitionController:
    """Decides about one partition and its brokers. `synced`: records count as replicated when they are synced."""

    def __init__(
        self,
        replicas: Sequence[int],
        settings: dict[str, str],
        on_commit: Callable[[], None],
        *,
        synced: bool,
    ) -> None:
        config = BrokerConfig({"node.id": "0", "process.roles": "controller", **settings})
        self._core = Controller(config, 0, Random(0))
        self._on_commit = on_commit
        self._replicas = list(replicas)
        self._synced = synced
        self.images: list[MetadataImage] = []
        """Every version of the metadata."""
        self._commit(self._core.decide_start(initial_records(), transaction_open=False))

    @property
    def image(self) -> MetadataImage:
        return self.images[-1]

    @property
    def partition(self) -> PartitionImage | None:
        topic = self.image.topics.by_id.get(TOPIC_ID)
        return None if topic is None else topic.partitions[0]

    def _commit(self, records: Sequence[Message]) -> None:
        if not records:
            return
        after = self._core.replayed(records, self._core.image.offset + len(records), 1)
        self._core.advance(after)
        self.images.append(after.image)
        self._on_commit()

    # Brokers

    def register(self, broker_id: int, incarnation: int, previous_epoch: int, now: float) -> int:
        """Register a broker; returns its epoch, -1 if the registration is refused for now."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=UUID(int=incarnation),
            features=_FEATURES,
            log_dirs=[UUID(int=1000 + broker_id)],
            previous_broker_epoch=previous_epoch,
        )
        core = self._core
        try:
            decision = decide_register_broker(
                core.view(),
                core.sessions,
                request,
                cluster_id=ANY_CLUSTER,
                now=now,
                next_offset=core.image.offset + 1,
                kraft_version=0,
            )
        except ApiError:
            return -1
        self._commit(decision.records)
        return decision.response.broker_epoch

    def heartbeat(self, request: BrokerHeartbeatRequest, now: float) -> BrokerHeartbeatResponse | None:
        """Renew the session of a broker; None if its epoch is not the registered one."""
        core = self._core
        try:
            decision = decide_heartbeat(
                core.view(), core.sessions, request, now=now, next_offset=core.image.offset + 1
            )
        except ApiError:
            return None
        self._commit(decision.records)
        self._create()
        return decision.response

    def expire_sessions(self, now: float) -> None:
        """Fence the brokers whose sessions have ended."""
        self.fence(self._core.sessions.expired(self.image, now))

    def fence(self, brokers: Sequence[int]) -> None:
        """Fence brokers at one moment."""
        self._commit(decide_fence(self._core.view(), brokers).records)

    def _create(self) -> None:
        """Create the topic when all its brokers are up for the first time."""
        brokers = self.image.brokers
        if self.partition is not None or any(
            each not in brokers or brokers[each].fenced for each in self._replicas
        ):
            return
        self._commit(
            [
                TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
                ConfigRecord(
                    resource_type=ResourceType.TOPIC,
                    resource_name=TOPIC,
                    name="flush.messages",
                    value="1" if self._synced else str(2**63 - 1),
                ),
                PartitionRecord(
                    topic_id=TOPIC_ID,
                    partition_id=0,
                    replicas=self._replicas,
                    isr=self._replicas,
                    leader=self._replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[UUID(int=1000 + each) for each in self._replicas],
                ),
            ]
        )

    # The partition

    def balance(self) -> None:
        """Give the partition back to its preferred leader."""
        self._commit(decide_balance(self._core.view()).records)

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR as the leader proposes, if the proposal is valid."""
        try:
            decision = decide_alter_partition(self._core.view(), request, _ALTER_PARTITION_VERSION)
        except ApiError as error:
            return AlterPartitionResponse(error_code=ErrorCode(error.code))
        self._commit(decision.records)
        return decision.response
