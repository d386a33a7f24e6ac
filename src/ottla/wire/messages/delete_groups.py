"""The DeleteGroups request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DeleteGroupsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=42, versions="0-2", flexible="2+")

    groups_names: Annotated[list[str], F("[]string", "0+")] = []


class DeletableGroupResult(Message):
    group_id: Annotated[str, F("string", "0+")] = ""
    error_code: Annotated[int, F("int16", "0+")] = 0


class DeleteGroupsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=42, versions="0-2", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[DeletableGroupResult], F("[]struct", "0+")] = []
