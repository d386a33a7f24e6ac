"""The LeaveGroup request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class MemberIdentity(Message):
    member_id: Annotated[str, F("string", "3+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+")] = None
    reason: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None


class LeaveGroupRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=13, versions="0-5", flexible="4+")

    group_id: Annotated[str, F("string", "0+")] = ""
    member_id: Annotated[str, F("string", "0-2")] = ""
    members: Annotated[list[MemberIdentity], F("[]struct", "3+")] = []


class MemberResponse(Message):
    member_id: Annotated[str, F("string", "3+")] = ""
    group_instance_id: Annotated[str | None, F("string", "3+", nullable="3+")] = ""
    error_code: Annotated[int, F("int16", "3+")] = 0


class LeaveGroupResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=13, versions="0-5", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    members: Annotated[list[MemberResponse], F("[]struct", "3+")] = []
