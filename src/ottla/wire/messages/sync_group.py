"""The SyncGroup request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class SyncGroupRequestAssignment(Message):
    member_id: Annotated[str, F("string", "0+")] = ""
    assignment: Annotated[bytes, F("bytes", "0+")] = b""


class SyncGroupRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=14, versions="0-5", flexible="4+")

    group_id: Annotated[str, F("string", "0+")] = ""
    generation_id: Annotated[int, F("int32", "0+")] = 0
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None
    assignments: Annotated[list[SyncGroupRequestAssignment], F("[]struct", "0+")] = []


class SyncGroupResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=14, versions="0-5", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    protocol_type: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None
    assignment: Annotated[bytes, F("bytes", "0+")] = b""
