"""The ListOffsets request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ListOffsetsPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    current_leader_epoch: Annotated[int, F("int32", "4+", ignorable=True)] = -1
    timestamp: Annotated[int, F("int64", "0+")] = 0


class ListOffsetsTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[ListOffsetsPartition], F("[]struct", "0+")] = []


class ListOffsetsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=2, versions="1-11", flexible="6+")

    replica_id: Annotated[int, F("int32", "0+")] = 0
    isolation_level: Annotated[int, F("int8", "2+")] = 0
    topics: Annotated[list[ListOffsetsTopic], F("[]struct", "0+")] = []
    timeout_ms: Annotated[int, F("int32", "10+", ignorable=True)] = 0


class ListOffsetsPartitionResponse(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    timestamp: Annotated[int, F("int64", "1+")] = -1
    offset: Annotated[int, F("int64", "1+")] = -1
    leader_epoch: Annotated[int, F("int32", "4+")] = -1


class ListOffsetsTopicResponse(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[ListOffsetsPartitionResponse], F("[]struct", "0+")] = []


class ListOffsetsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=2, versions="1-11", flexible="6+")

    throttle_time_ms: Annotated[int, F("int32", "2+", ignorable=True)] = 0
    topics: Annotated[list[ListOffsetsTopicResponse], F("[]struct", "0+")] = []
