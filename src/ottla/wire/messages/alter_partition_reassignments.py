"""The AlterPartitionReassignments request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ReassignablePartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    replicas: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+")] = None


class ReassignableTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[ReassignablePartition], F("[]struct", "0+")] = []


class AlterPartitionReassignmentsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=45, versions="0-1", flexible="0+")

    timeout_ms: Annotated[int, F("int32", "0+")] = 60000
    allow_replication_factor_change: Annotated[bool, F("bool", "1+")] = True
    topics: Annotated[list[ReassignableTopic], F("[]struct", "0+")] = []


class ReassignablePartitionResponse(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class ReassignableTopicResponse(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[ReassignablePartitionResponse], F("[]struct", "0+")] = []


class AlterPartitionReassignmentsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=45, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    allow_replication_factor_change: Annotated[bool, F("bool", "1+", ignorable=True)] = True
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    responses: Annotated[list[ReassignableTopicResponse], F("[]struct", "0+")] = []
