"""The controller of one partition: decisions on images, without a quorum. Every decision is committed at once.

Registrations, heartbeats, fencing and the election of leaders follow the rules of `controller`; the changes of the
partition are made by `controller.partition_change`. Each version of the metadata is kept, so that brokers can apply
them in order and late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.controller.partition_change import PartitionChange
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, MetadataImage, PartitionImage
from ottla.metadata.records import (
    FenceBrokerRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from ottla.wire.schema import Message

TOPIC_ID: Final = UUID(int=77)
_DIRECTORY: Final = UUID(int=99)
_FEATURES: Final = {"eligible.leader.replicas.version": 1}


class PartitionController:
    """Decides about one partition and its brokers."""

    def __init__(
        self, replicas: tuple[int, ...], min_insync_replicas: int, on_commit: Callable[[], None]
    ) -> None:
        self._min_insync_replicas = min_insync_replicas
        self._on_commit = on_commit
        self.images = [MetadataImage(features=_FEATURES)]
        """Every version of the metadata; the offset of an image is its index."""
        self._replicas = replicas
        self._created = False

    @property
    def image(self) -> MetadataImage:
        return self.images[-1]

    @property
    def partition(self) -> PartitionImage | None:
        topic = self.image.topics.by_id.get(TOPIC_ID)
        return None if topic is None else topic.partitions[0]

    def _commit(self, *records: Message | None) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            if record is not None:
                delta.replay(record)
        self.images.append(delta.apply(len(self.images), 1))
        self._on_commit()

    # Brokers

    def register(self, broker_id: int, incarnation: int, *, clean: bool) -> int:
        """Register a broker; returns its epoch. After an unclean stop it leaves the ISR."""
        known = self.image.brokers.get(broker_id)
        if known is not None and known.incarnation_id == UUID(int=incarnation):
            return known.epoch
        epoch = len(self.images)
        register = RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=epoch,
            incarnation_id=UUID(int=incarnation),
            fenced=True,
            log_dirs=[_DIRECTORY],
        )
        self._commit(register, self._without(broker_id))
        return epoch

    def heartbeat(self, broker_id: int, epoch: int, applied: int) -> bool:
        """Unfence a broker that has applied its registration; False if the epoch is not the registered one."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return False
        if broker.fenced and applied >= epoch:
            self._commit(UnfenceBrokerRecord(id=broker_id, epoch=epoch))
            self._create()
            self._elect()
        return True

    def fence(self, broker_id: int) -> None:
        """No heartbeat has arrived for too long."""
        broker = self.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            self._commit(FenceBrokerRecord(id=broker_id, epoch=broker.epoch), self._without(broker_id))

    def _create(self) -> None:
        """Create the topic when all its brokers are up for the first time."""
        up = [each for each in self._replicas if each in self.image.brokers and self._is_active(each)]
        if not self._created and len(up) == len(self._replicas):
            self._created = True
            self._commit(
                TopicRecord(name="t", topic_id=TOPIC_ID),
                PartitionRecord(
                    topic_id=TOPIC_ID,
                    partition_id=0,
                    replicas=list(self._replicas),
                    isr=list(self._replicas),
                    leader=self._replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[_DIRECTORY] * len(self._replicas),
                ),
            )

    # The partition

    def _is_active(self, broker_id: int) -> bool:
        broker: BrokerImage | None = self.image.brokers.get(broker_id)
        return broker is not None and broker.active

    def _change(self, partition: PartitionImage, leaving: int | None = None) -> PartitionChange:
        return PartitionChange(
            partition,
            lambda one: one != leaving and self._is_active(one),
            min_insync_replicas=self._min_insync_replicas,
        )

    def _build(self, change: PartitionChange) -> Message | None:
        record = change.build()
        if record is not None:
            record.topic_id, record.partition_id = TOPIC_ID, 0
        return record

    def _without(self, broker_id: int) -> Message | None:
        """The change that removes a broker from the ISR and the leadership; a synced log stays eligible."""
        partition = self.partition
        if partition is None:
            return None
        change = self._change(partition, broker_id)
        change.isr = tuple(one for one in partition.isr if one != broker_id)
        return self._build(change)

    def _elect(self) -> None:
        partition = self.partition
        if partition is not None and partition.leader < 0:
            record = self._build(self._change(partition))
            if record is not None:
                self._commit(record)

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR as the leader proposes, if the proposal is valid."""
        data = request.topics[0].partitions[0]
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        partition = self.partition
        error = self._refusal(
            request.broker_id, data.leader_epoch, data.partition_epoch, data.new_isr_with_epochs
        )
        result = AlterPartitionResponsePartitionData(error_code=error)
        if error is ErrorCode.NONE and partition is not None:
            change = self._change(partition)
            change.isr = tuple(each.broker_id for each in data.new_isr_with_epochs)
            record = self._build(change)
            if record is not None:
                self._commit(record)
            partition = self.partition
            result = replace_result(partition)
        topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=[result])
        return AlterPartitionResponse(topics=[topic])

    def _refusal(
        self, broker_id: int, leader_epoch: int, partition_epoch: int, members: list[BrokerState]
    ) -> ErrorCode:
        partition = self.partition
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if leader_epoch != partition.leader_epoch or broker_id != partition.leader:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition_epoch != partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in members:
            broker = self.image.brokers.get(member.broker_id)
            if broker is None or not broker.active or member.broker_epoch not in (-1, broker.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE


def replace_result(partition: PartitionImage | None) -> AlterPartitionResponsePartitionData:
    """The result of a change that was applied."""
    if partition is None:
        return AlterPartitionResponsePartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    return AlterPartitionResponsePartitionData(
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
    )
