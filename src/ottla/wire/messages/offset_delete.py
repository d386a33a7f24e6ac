"""The OffsetDelete request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class OffsetDeleteRequestPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0


class OffsetDeleteRequestTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[OffsetDeleteRequestPartition], F("[]struct", "0+")] = []


class OffsetDeleteRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=47, versions="0", flexible="none")

    group_id: Annotated[str, F("string", "0+")] = ""
    topics: Annotated[list[OffsetDeleteRequestTopic], F("[]struct", "0+")] = []


class OffsetDeleteResponsePartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class OffsetDeleteResponseTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[OffsetDeleteResponsePartition], F("[]struct", "0+")] = []


class OffsetDeleteResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=47, versions="0", flexible="none")

    error_code: Annotated[int, F("int16", "0+")] = 0
    throttle_time_ms: Annotated[int, F("int32", "0+", ignorable=True)] = 0
    topics: Annotated[list[OffsetDeleteResponseTopic], F("[]struct", "0+")] = []
