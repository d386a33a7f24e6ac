"""The DescribeTopicPartitions request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class TopicRequest(Message):
    name: Annotated[str, F("string", "0+")] = ""


class Cursor(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partition_index: Annotated[int, F("int32", "0+")] = 0


class DescribeTopicPartitionsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=75, versions="0", flexible="0+")

    topics: Annotated[list[TopicRequest], F("[]struct", "0+")] = []
    response_partition_limit: Annotated[int, F("int32", "0+")] = 2000
    cursor: Annotated[Cursor | None, F("struct", "0+", nullable="0+")] = None


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    partition_index: Annotated[int, F("int32", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], F("[]int32", "0+")] = []
    isr_nodes: Annotated[list[int], F("[]int32", "0+")] = []
    eligible_leader_replicas: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+")] = None
    last_known_elr: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+")] = None
    offline_replicas: Annotated[list[int], F("[]int32", "0+", ignorable=True)] = []


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    name: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    topic_id: Annotated[Uuid, F("uuid", "0+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, F("bool", "0+", ignorable=True)] = False
    partitions: Annotated[list[DescribeTopicPartitionsResponsePartition], F("[]struct", "0+")] = []
    topic_authorized_operations: Annotated[int, F("int32", "0+")] = -2147483648


class DescribeTopicPartitionsResponseCursor(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partition_index: Annotated[int, F("int32", "0+")] = 0


class DescribeTopicPartitionsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=75, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+", ignorable=True)] = 0
    topics: Annotated[list[DescribeTopicPartitionsResponseTopic], F("[]struct", "0+")] = []
    next_cursor: Annotated[DescribeTopicPartitionsResponseCursor | None, F("struct", "0+", nullable="0+")] = (
        None
    )
