"""The Heartbeat request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class HeartbeatRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=12, versions="0-4", flexible="4+")

    group_id: Annotated[str, F("string", "0+")] = ""
    generation_id: Annotated[int, F("int32", "0+")] = 0
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+")] = None


class HeartbeatResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=12, versions="0-4", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
