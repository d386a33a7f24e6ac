"""The ListGroups request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ListGroupsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=16, versions="0-5", flexible="3+")

    states_filter: Annotated[list[str], F("[]string", "4+")] = []
    types_filter: Annotated[list[str], F("[]string", "5+")] = []


class ListedGroup(Message):
    group_id: Annotated[str, F("string", "0+")] = ""
    protocol_type: Annotated[str, F("string", "0+")] = ""
    group_state: Annotated[str, F("string", "4+", ignorable=True)] = ""
    group_type: Annotated[str, F("string", "5+", ignorable=True)] = ""


class ListGroupsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=16, versions="0-5", flexible="3+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    groups: Annotated[list[ListedGroup], F("[]struct", "0+")] = []
