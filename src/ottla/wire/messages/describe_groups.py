"""The DescribeGroups request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribeGroupsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=15, versions="0-6", flexible="5+")

    groups: Annotated[list[str], F("[]string", "0+")] = []
    include_authorized_operations: Annotated[bool, F("bool", "3+")] = False


class DescribedGroupMember(Message):
    member_id: Annotated[str, F("string", "0+")] = ""
    group_instance_id: Annotated[str | None, F("string", "4+", nullable="4+", ignorable=True)] = None
    client_id: Annotated[str, F("string", "0+")] = ""
    client_host: Annotated[str, F("string", "0+")] = ""
    member_metadata: Annotated[bytes, F("bytes", "0+")] = b""
    member_assignment: Annotated[bytes, F("bytes", "0+")] = b""


class DescribedGroup(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "6+", nullable="6+")] = None
    group_id: Annotated[str, F("string", "0+")] = ""
    group_state: Annotated[str, F("string", "0+")] = ""
    protocol_type: Annotated[str, F("string", "0+")] = ""
    protocol_data: Annotated[str, F("string", "0+")] = ""
    members: Annotated[list[DescribedGroupMember], F("[]struct", "0+")] = []
    authorized_operations: Annotated[int, F("int32", "3+")] = -2147483648


class DescribeGroupsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=15, versions="0-6", flexible="5+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    groups: Annotated[list[DescribedGroup], F("[]struct", "0+")] = []
