"""The DeleteRecords request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DeleteRecordsPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    offset: Annotated[int, F("int64", "0+")] = 0


class DeleteRecordsTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[DeleteRecordsPartition], F("[]struct", "0+")] = []


class DeleteRecordsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=21, versions="0-2", flexible="2+")

    topics: Annotated[list[DeleteRecordsTopic], F("[]struct", "0+")] = []
    timeout_ms: Annotated[int, F("int32", "0+")] = 0


class DeleteRecordsPartitionResult(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    low_watermark: Annotated[int, F("int64", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class DeleteRecordsTopicResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[DeleteRecordsPartitionResult], F("[]struct", "0+")] = []


class DeleteRecordsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=21, versions="0-2", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    topics: Annotated[list[DeleteRecordsTopicResult], F("[]struct", "0+")] = []
