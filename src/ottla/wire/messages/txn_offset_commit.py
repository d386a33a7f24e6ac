"""The TxnOffsetCommit request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class TxnOffsetCommitRequestPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    committed_offset: Annotated[int, F("int64", "0+")] = 0
    committed_leader_epoch: Annotated[int, F("int32", "2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[TxnOffsetCommitRequestPartition], F("[]struct", "0+")] = []


class TxnOffsetCommitRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=28, versions="0-5", flexible="3+")

    transactional_id: Annotated[str, F("string", "0+")] = ""
    group_id: Annotated[str, F("string", "0+")] = ""
    producer_id: Annotated[int, F("int64", "0+")] = 0
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    generation_id: Annotated[int, F("int32", "3+")] = -1
    member_id: Annotated[str, F("string", "3+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+")] = None
    topics: Annotated[list[TxnOffsetCommitRequestTopic], F("[]struct", "0+")] = []


class TxnOffsetCommitResponsePartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class TxnOffsetCommitResponseTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[TxnOffsetCommitResponsePartition], F("[]struct", "0+")] = []


class TxnOffsetCommitResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=28, versions="0-5", flexible="3+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    topics: Annotated[list[TxnOffsetCommitResponseTopic], F("[]struct", "0+")] = []
