"""A harness for the state machine of groups, with methods for the requests of clients."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.client import ClientInfo
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.group.settings import GroupSettings
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import RemoveTopicRecord
from ottla.wire import codec
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.schema import Message
from tests.support.coordination import FakeClock, FakeTimers, Harness
from tests.support.metadata import one_node, topic_records

CLIENT = ClientInfo("client", "/127.0.0.1")
SESSION_MS = 10_000
COMMIT_VERSION = 9


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer."""
    return b"\0\0" + codec.encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


class GroupBench(Harness[GroupStateMachine]):
    """One group shard. Topics have one partition by default."""

    def __init__(self, *topics: str, settings: Mapping[str, str] | None = None) -> None:
        config = BrokerConfig({"group.initial.rebalance.delay.ms": "0", **(settings or {})})

        def make(timers: FakeTimers, clock: FakeClock) -> GroupStateMachine:
            return GroupStateMachine(GroupSettings(config), timers, clock, random.Random(7))

        super().__init__(make, one_node(*topics, **{"group.version": 1}))

    # Topics

    def delete_topic(self, name: str) -> None:
        self._change([RemoveTopicRecord(topic_id=self.image.topics.by_name[name].topic_id)])

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._change(topic_records(name, [(1,)] * partitions))

    def _change(self, records: Iterable[Message]) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.change_image(delta)

    def change_image(self, delta: MetadataDelta) -> None:
        image: MetadataImage = delta.apply(self.image.offset + 1, self.image.epoch)
        self.image = image
        self.machine.on_metadata_changed(delta, image)
        self.advance(0)

    # Offsets

    def commit(
        self,
        group: str,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        retention_ms: int = -1,
        version: int = COMMIT_VERSION,
    ) -> ErrorCode:
        """Commit one offset; the error of the partition or of the request."""
        known = self.image.topics.by_name.get(topic)
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=ZERO_UUID if known is None else known.topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        try:
            response = self.write(lambda machine: machine.commit_offsets(request, version)).result()
        except ApiError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def commit_in_transaction(
        self,
        producer_id: int,
        group: str,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: str = "",
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
    ) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id=f"tx-{producer_id}",
            group_id=group,
            producer_id=producer_id,
            member_id=member,
            generation_id=generation,
            group_instance_id=instance,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        try:
            response = self.write_transactional(
                producer_id, 0, lambda machine: machine.commit_transactional_offsets(request, 5)
            ).result()
        except ApiError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch(
        self, group: str, topic: str = "t", partition: int = 0, *, stable: bool = False
    ) -> int | ErrorCode:
        """The committed offset of a partition, -1 if there is none, or the error."""
        known = self.image.topics.by_name.get(topic)
        asked = OffsetFetchRequestTopics(
            name=topic,
            topic_id=ZERO_UUID if known is None else known.topic_id,
            partition_indexes=[partition],
        )
        request = OffsetFetchRequestGroup(group_id=group, topics=[asked])
        (response,) = self.machine.fetch_offsets(request, require_stable=stable).topics[0].partitions
        return ErrorCode(response.error_code) if response.error_code else response.committed_offset

    def fetch_all(self, group: str, *, stable: bool = False) -> dict[tuple[str, int], int]:
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        response = self.machine.fetch_offsets(request, require_stable=stable)
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in response.topics
            for each in topic.partitions
        }

    def delete_offset(self, group: str, topic: str = "t", partition: int = 0) -> ErrorCode:
        asked = OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
        )
        request = OffsetDeleteRequest(group_id=group, topics=[asked])
        try:
            response = self.write(lambda machine: machine.delete_offsets(request)).result()
        except ApiError as error:
            return error.code
        return ErrorCode(response.topics[0].partitions[0].error_code)

    # Groups

    def join(self, group: str, *topics: str, protocol_type: str = "consumer") -> str:
        """The first member joins and gets its assignment; returns its id. The generation is 1 then."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type=protocol_type,
            protocols=[protocol],
        )
        joined = self.write(lambda machine: machine.join(request, CLIENT, 3))
        self.advance(0)
        member_id = joined.result().member_id
        sync = SyncGroupRequest(
            group_id=group, generation_id=joined.result().generation_id, member_id=member_id
        )
        assert not self.write(lambda machine: machine.sync(sync)).result().error_code
        return member_id

    def enter(self, group: str, *topics: str, member: str = "m", epoch: int = 0) -> int:
        """A heartbeat of a consumer group member, which joins with epoch 0; returns its new epoch."""
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms = SESSION_MS
            request.subscribed_topic_names = list(topics)
            request.topic_partitions = []
        response = self.write(lambda machine: machine.consumer_heartbeat(request, CLIENT, 1)).result()
        return response.member_epoch

    def delete_group(self, group: str) -> ErrorCode:
        return ErrorCode(self.write(lambda machine: machine.delete_group(group)).result().error_code)

    def groups(self, *states: str, kinds: Iterable[str] = ()) -> dict[str, str]:
        """Names and states of the listed groups."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(kinds))
        return {each.group_id: each.group_state for each in self.machine.list_groups(request)}
