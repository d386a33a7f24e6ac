"""The DescribeQuorum request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0


class TopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class DescribeQuorumRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=55, versions="0-2", flexible="0+")

    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []


class ReplicaState(Message):
    replica_id: Annotated[int, F("int32", "0+")] = 0
    replica_directory_id: Annotated[Uuid, F("uuid", "2+")] = ZERO_UUID
    log_end_offset: Annotated[int, F("int64", "0+")] = 0
    last_fetch_timestamp: Annotated[int, F("int64", "1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, F("int64", "1+", ignorable=True)] = -1


class DescribeQuorumResponsePartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "2+", nullable="2+", ignorable=True)] = ""
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0
    high_watermark: Annotated[int, F("int64", "0+")] = 0
    current_voters: Annotated[list[ReplicaState], F("[]struct", "0+")] = []
    observers: Annotated[list[ReplicaState], F("[]struct", "0+")] = []


class DescribeQuorumResponseTopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[DescribeQuorumResponsePartitionData], F("[]struct", "0+")] = []


class Listener(Message):
    name: Annotated[str, F("string", "2+")] = ""
    host: Annotated[str, F("string", "2+")] = ""
    port: Annotated[int, F("uint16", "2+")] = 0


class Node(Message):
    node_id: Annotated[int, F("int32", "2+")] = 0
    listeners: Annotated[list[Listener], F("[]struct", "2+")] = []


class DescribeQuorumResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=55, versions="0-2", flexible="0+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "2+", nullable="2+", ignorable=True)] = ""
    topics: Annotated[list[DescribeQuorumResponseTopicData], F("[]struct", "0+")] = []
    nodes: Annotated[list[Node], F("[]struct", "2+")] = []
