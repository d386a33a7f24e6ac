"""The OffsetCommit request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class OffsetCommitRequestPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    committed_offset: Annotated[int, F("int64", "0+")] = 0
    committed_leader_epoch: Annotated[int, F("int32", "6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class OffsetCommitRequestTopic(Message):
    name: Annotated[str, F("string", "0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetCommitRequestPartition], F("[]struct", "0+")] = []


class OffsetCommitRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=8, versions="2-10", flexible="8+")

    group_id: Annotated[str, F("string", "0+")] = ""
    generation_id_or_member_epoch: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    member_id: Annotated[str, F("string", "1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, F("string", "7+", nullable="7+")] = None
    retention_time_ms: Annotated[int, F("int64", "2-4", ignorable=True)] = -1
    topics: Annotated[list[OffsetCommitRequestTopic], F("[]struct", "0+")] = []


class OffsetCommitResponsePartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class OffsetCommitResponseTopic(Message):
    name: Annotated[str, F("string", "0-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetCommitResponsePartition], F("[]struct", "0+")] = []


class OffsetCommitResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=8, versions="2-10", flexible="8+")

    throttle_time_ms: Annotated[int, F("int32", "3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetCommitResponseTopic], F("[]struct", "0+")] = []
