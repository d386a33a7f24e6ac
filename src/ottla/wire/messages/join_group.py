"""The JoinGroup request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class JoinGroupRequestProtocol(Message):
    name: Annotated[str, F("string", "0+")] = ""
    metadata: Annotated[bytes, F("bytes", "0+")] = b""


class JoinGroupRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=11, versions="0-9", flexible="6+")

    group_id: Annotated[str, F("string", "0+")] = ""
    session_timeout_ms: Annotated[int, F("int32", "0+")] = 0
    rebalance_timeout_ms: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "5+", nullable="5+")] = None
    protocol_type: Annotated[str, F("string", "0+")] = ""
    protocols: Annotated[list[JoinGroupRequestProtocol], F("[]struct", "0+")] = []
    reason: Annotated[str | None, F("string", "8+", nullable="8+", ignorable=True)] = None


class JoinGroupResponseMember(Message):
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "5+", nullable="5+", ignorable=True)] = None
    metadata: Annotated[bytes, F("bytes", "0+")] = b""


class JoinGroupResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=11, versions="0-9", flexible="6+")

    throttle_time_ms: Annotated[int, F("int32", "2+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    generation_id: Annotated[int, F("int32", "0+")] = -1
    protocol_type: Annotated[str | None, F("string", "7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, F("string", "0+", nullable="7+")] = ""
    leader: Annotated[str, F("string", "0+")] = ""
    skip_assignment: Annotated[bool, F("bool", "9+")] = False
    member_id: Annotated[str, F("string", "0+")] = ""
    members: Annotated[list[JoinGroupResponseMember], F("[]struct", "0+")] = []
