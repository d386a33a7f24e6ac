"""The OffsetForLeaderEpoch request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class OffsetForLeaderPartition(Message):
    partition: Annotated[int, F("int32", "0+")] = 0
    current_leader_epoch: Annotated[int, F("int32", "2+", ignorable=True)] = -1
    leader_epoch: Annotated[int, F("int32", "0+")] = 0


class OffsetForLeaderTopic(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[OffsetForLeaderPartition], F("[]struct", "0+")] = []


class OffsetForLeaderEpochRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=23, versions="2-4", flexible="4+")

    replica_id: Annotated[int, F("int32", "3+", ignorable=True)] = -2
    topics: Annotated[list[OffsetForLeaderTopic], F("[]struct", "0+")] = []


class EpochEndOffset(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    partition: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    end_offset: Annotated[int, F("int64", "0+")] = -1


class OffsetForLeaderTopicResult(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[EpochEndOffset], F("[]struct", "0+")] = []


class OffsetForLeaderEpochResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=23, versions="2-4", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "2+", ignorable=True)] = 0
    topics: Annotated[list[OffsetForLeaderTopicResult], F("[]struct", "0+")] = []
