"""The ConsumerGroupDescribe request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class ConsumerGroupDescribeRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=69, versions="0-1", flexible="0+")

    group_ids: Annotated[list[str], F("[]string", "0+")] = []
    include_authorized_operations: Annotated[bool, F("bool", "0+")] = False


class TopicPartitions(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class Assignment(Message):
    topic_partitions: Annotated[list[TopicPartitions], F("[]struct", "0+")] = []


class Member(Message):
    member_id: Annotated[str, F("string", "0+")] = ""
    instance_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    rack_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    member_epoch: Annotated[int, F("int32", "0+")] = 0
    client_id: Annotated[str, F("string", "0+")] = ""
    client_host: Annotated[str, F("string", "0+")] = ""
    subscribed_topic_names: Annotated[list[str], F("[]string", "0+")] = []
    subscribed_topic_regex: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    assignment: Annotated[Assignment, F("struct", "0+")] = field(default_factory=Assignment)
    target_assignment: Annotated[Assignment, F("struct", "0+")] = field(default_factory=Assignment)
    member_type: Annotated[int, F("int8", "1+", ignorable=True)] = -1


class DescribedGroup(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    group_id: Annotated[str, F("string", "0+")] = ""
    group_state: Annotated[str, F("string", "0+")] = ""
    group_epoch: Annotated[int, F("int32", "0+")] = 0
    assignment_epoch: Annotated[int, F("int32", "0+")] = 0
    assignor_name: Annotated[str, F("string", "0+")] = ""
    members: Annotated[list[Member], F("[]struct", "0+")] = []
    authorized_operations: Annotated[int, F("int32", "0+")] = -2147483648


class ConsumerGroupDescribeResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=69, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    groups: Annotated[list[DescribedGroup], F("[]struct", "0+")] = []
