"""The OffsetFetch request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class OffsetFetchRequestTopic(Message):
    name: Annotated[str, F("string", "0-7")] = ""
    partition_indexes: Annotated[list[int], F("[]int32", "0-7")] = []


class OffsetFetchRequestTopics(Message):
    name: Annotated[str, F("string", "8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    partition_indexes: Annotated[list[int], F("[]int32", "8+")] = []


class OffsetFetchRequestGroup(Message):
    group_id: Annotated[str, F("string", "8+")] = ""
    member_id: Annotated[str | None, F("string", "9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[int, F("int32", "9+", ignorable=True)] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, F("[]struct", "8+", nullable="8+")] = []


class OffsetFetchRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=9, versions="1-10", flexible="6+")

    group_id: Annotated[str, F("string", "0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, F("[]struct", "0-7", nullable="2-7")] = []
    groups: Annotated[list[OffsetFetchRequestGroup], F("[]struct", "8+")] = []
    require_stable: Annotated[bool, F("bool", "7+")] = False


class OffsetFetchResponsePartition(Message):
    partition_index: Annotated[int, F("int32", "0-7")] = 0
    committed_offset: Annotated[int, F("int64", "0-7")] = 0
    committed_leader_epoch: Annotated[int, F("int32", "5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, F("string", "0-7", nullable="0-7")] = ""
    error_code: Annotated[int, F("int16", "0-7")] = 0


class OffsetFetchResponseTopic(Message):
    name: Annotated[str, F("string", "0-7")] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], F("[]struct", "0-7")] = []


class OffsetFetchResponsePartitions(Message):
    partition_index: Annotated[int, F("int32", "8+")] = 0
    committed_offset: Annotated[int, F("int64", "8+")] = 0
    committed_leader_epoch: Annotated[int, F("int32", "8+", ignorable=True)] = -1
    metadata: Annotated[str | None, F("string", "8+", nullable="8+")] = ""
    error_code: Annotated[int, F("int16", "8+")] = 0


class OffsetFetchResponseTopics(Message):
    name: Annotated[str, F("string", "8-9", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], F("[]struct", "8+")] = []


class OffsetFetchResponseGroup(Message):
    group_id: Annotated[str, F("string", "8+")] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], F("[]struct", "8+")] = []
    error_code: Annotated[int, F("int16", "8+")] = 0


class OffsetFetchResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=9, versions="1-10", flexible="6+")

    throttle_time_ms: Annotated[int, F("int32", "3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], F("[]struct", "0-7")] = []
    error_code: Annotated[int, F("int16", "2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], F("[]struct", "8+")] = []
