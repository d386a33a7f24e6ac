"""The DeleteTopics request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class DeleteTopicState(Message):
    name: Annotated[str | None, F("string", "6+", nullable="6+")] = None
    topic_id: Annotated[Uuid, F("uuid", "6+")] = ZERO_UUID


class DeleteTopicsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=20, versions="1-6", flexible="4+")

    topics: Annotated[list[DeleteTopicState], F("[]struct", "6+")] = []
    topic_names: Annotated[list[str], F("[]string", "0-5", ignorable=True)] = []
    timeout_ms: Annotated[int, F("int32", "0+")] = 0


class DeletableTopicResult(Message):
    name: Annotated[str | None, F("string", "0+", nullable="6+")] = ""
    topic_id: Annotated[Uuid, F("uuid", "6+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None


class DeleteTopicsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=20, versions="1-6", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    responses: Annotated[list[DeletableTopicResult], F("[]struct", "0+")] = []
