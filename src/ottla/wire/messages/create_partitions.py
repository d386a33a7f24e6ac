"""The CreatePartitions request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class CreatePartitionsAssignment(Message):
    broker_ids: Annotated[list[int], F("[]int32", "0+")] = []


class CreatePartitionsTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    count: Annotated[int, F("int32", "0+")] = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, F("[]struct", "0+", nullable="0+")] = []


class CreatePartitionsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=37, versions="0-3", flexible="2+")

    topics: Annotated[list[CreatePartitionsTopic], F("[]struct", "0+")] = []
    timeout_ms: Annotated[int, F("int32", "0+")] = 0
    validate_only: Annotated[bool, F("bool", "0+")] = False


class CreatePartitionsTopicResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = None


class CreatePartitionsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=37, versions="0-3", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[CreatePartitionsTopicResult], F("[]struct", "0+")] = []
