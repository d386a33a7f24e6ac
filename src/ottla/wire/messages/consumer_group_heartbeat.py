"""The ConsumerGroupHeartbeat request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class TopicPartitions(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class ConsumerGroupHeartbeatRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=68, versions="0-1", flexible="0+")

    group_id: Annotated[str, F("string", "0+")] = ""
    member_id: Annotated[str, F("string", "0+")] = ""
    member_epoch: Annotated[int, F("int32", "0+")] = 0
    instance_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    rack_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, F("int32", "0+")] = -1
    subscribed_topic_names: Annotated[list[str] | None, F("[]string", "0+", nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, F("string", "1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    topic_partitions: Annotated[list[TopicPartitions] | None, F("[]struct", "0+", nullable="0+")] = None


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class Assignment(Message):
    topic_partitions: Annotated[list[ConsumerGroupHeartbeatResponseTopicPartitions], F("[]struct", "0+")] = []


class ConsumerGroupHeartbeatResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=68, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    member_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    member_epoch: Annotated[int, F("int32", "0+")] = 0
    heartbeat_interval_ms: Annotated[int, F("int32", "0+")] = 0
    assignment: Annotated[Assignment | None, F("struct", "0+", nullable="0+")] = None
