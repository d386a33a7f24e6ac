"""Keys and values of the records in __consumer_offsets. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class LegacyOffsetCommitKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=0, versions="0", flexible="none")

    group: Annotated[str, F("string", "0")] = ""
    topic: Annotated[str, F("string", "0")] = ""
    partition: Annotated[int, F("int32", "0")] = 0


class LegacyOffsetCommitValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=0, versions="0", flexible="none")

    offset: Annotated[int, F("int64", "0")] = 0
    metadata: Annotated[str, F("string", "0")] = ""
    commit_timestamp: Annotated[int, F("int64", "0")] = 0


class OffsetCommitKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=1, versions="0", flexible="none")

    group: Annotated[str, F("string", "0")] = ""
    topic: Annotated[str, F("string", "0")] = ""
    partition: Annotated[int, F("int32", "0")] = 0


class OffsetCommitValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=1, versions="0-4", flexible="4+")

    offset: Annotated[int, F("int64", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "3+", ignorable=True)] = -1
    metadata: Annotated[str, F("string", "0+")] = ""
    commit_timestamp: Annotated[int, F("int64", "0+")] = 0
    expire_timestamp: Annotated[int, F("int64", "1", ignorable=True)] = -1
    topic_id: Annotated[Uuid, F("uuid", "4+", tag=0, tagged="4+", ignorable=True)] = ZERO_UUID


class GroupMetadataKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=2, versions="0", flexible="none")

    group: Annotated[str, F("string", "0")] = ""


class MemberMetadata(Message):
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+", ignorable=True)] = None
    client_id: Annotated[str, F("string", "0+")] = ""
    client_host: Annotated[str, F("string", "0+")] = ""
    rebalance_timeout: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    session_timeout: Annotated[int, F("int32", "0+")] = 0
    subscription: Annotated[bytes, F("bytes", "0+")] = b""
    assignment: Annotated[bytes, F("bytes", "0+")] = b""


class GroupMetadataValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=2, versions="0-4", flexible="4+")

    protocol_type: Annotated[str, F("string", "0+")] = ""
    generation: Annotated[int, F("int32", "0+")] = 0
    protocol: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    leader: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    current_state_timestamp: Annotated[int, F("int64", "2+", ignorable=True)] = -1
    members: Annotated[list[MemberMetadata], F("[]struct", "0+")] = []


class ConsumerGroupMetadataKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=3, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""


class ConsumerGroupMetadataValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=3, versions="0", flexible="0+")

    epoch: Annotated[int, F("int32", "0+")] = 0
    metadata_hash: Annotated[int, F("int64", "0+", tag=0, tagged="0+")] = 0


class ConsumerGroupPartitionMetadataKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=4, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""


class PartitionMetadata(Message):
    partition: Annotated[int, F("int32", "0+")] = 0
    racks: Annotated[list[str], F("[]string", "0+")] = []


class TopicMetadata(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    topic_name: Annotated[str, F("string", "0+")] = ""
    num_partitions: Annotated[int, F("int32", "0+")] = 0
    partition_metadata: Annotated[list[PartitionMetadata], F("[]struct", "0+")] = []


class ConsumerGroupPartitionMetadataValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=4, versions="0", flexible="0+")

    topics: Annotated[list[TopicMetadata], F("[]struct", "0+")] = []


class ConsumerGroupMemberMetadataKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=5, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""
    member_id: Annotated[str, F("string", "0")] = ""


class ClassicProtocol(Message):
    name: Annotated[str, F("string", "0+")] = ""
    metadata: Annotated[bytes, F("bytes", "0+")] = b""


class ClassicMemberMetadata(Message):
    session_timeout_ms: Annotated[int, F("int32", "0+")] = 0
    supported_protocols: Annotated[list[ClassicProtocol], F("[]struct", "0+")] = []


class ConsumerGroupMemberMetadataValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=5, versions="0", flexible="0+")

    instance_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    rack_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    client_id: Annotated[str, F("string", "0+")] = ""
    client_host: Annotated[str, F("string", "0+")] = ""
    subscribed_topic_names: Annotated[list[str], F("[]string", "0+")] = []
    subscribed_topic_regex: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    rebalance_timeout_ms: Annotated[int, F("int32", "0+")] = -1
    server_assignor: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, F("struct", "0+", nullable="0+", tag=0, tagged="0+")
    ] = None


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=6, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=6, versions="0", flexible="0+")

    assignment_epoch: Annotated[int, F("int32", "0+")] = 0
    assignment_timestamp: Annotated[int, F("int64", "0+", tag=0, tagged="0+", ignorable=True)] = 0


class ConsumerGroupTargetAssignmentMemberKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=7, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""
    member_id: Annotated[str, F("string", "0")] = ""


class TopicPartition(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class ConsumerGroupTargetAssignmentMemberValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=7, versions="0", flexible="0+")

    topic_partitions: Annotated[list[TopicPartition], F("[]struct", "0+")] = []


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=8, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""
    member_id: Annotated[str, F("string", "0")] = ""


class TopicPartitions(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[int], F("[]int32", "0+")] = []
    assignment_epochs: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+", tag=0, tagged="0+")] = (
        None
    )


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=8, versions="0", flexible="0+")

    member_epoch: Annotated[int, F("int32", "0+")] = 0
    previous_member_epoch: Annotated[int, F("int32", "0+")] = 0
    state: Annotated[int, F("int8", "0+")] = 0
    assigned_partitions: Annotated[list[TopicPartitions], F("[]struct", "0+")] = []
    partitions_pending_revocation: Annotated[list[TopicPartitions], F("[]struct", "0+")] = []


class ConsumerGroupRegularExpressionKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=16, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0")] = ""
    regular_expression: Annotated[str, F("string", "0")] = ""


class ConsumerGroupRegularExpressionValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=16, versions="0", flexible="0+")

    topics: Annotated[list[str], F("[]string", "0+")] = []
    version: Annotated[int, F("int64", "0+")] = 0
    timestamp: Annotated[int, F("int64", "0+")] = 0
