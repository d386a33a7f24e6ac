"""The DeleteAcls request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DeleteAclsFilter(Message):
    resource_type_filter: Annotated[int, F("int8", "0+")] = 0
    resource_name_filter: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, F("int8", "1+")] = 3
    principal_filter: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    host_filter: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    operation: Annotated[int, F("int8", "0+")] = 0
    permission_type: Annotated[int, F("int8", "0+")] = 0


class DeleteAclsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=31, versions="1-3", flexible="2+")

    filters: Annotated[list[DeleteAclsFilter], F("[]struct", "0+")] = []


class DeleteAclsMatchingAcl(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    pattern_type: Annotated[int, F("int8", "1+")] = 3
    principal: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    operation: Annotated[int, F("int8", "0+")] = 0
    permission_type: Annotated[int, F("int8", "0+")] = 0


class DeleteAclsFilterResult(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    matching_acls: Annotated[list[DeleteAclsMatchingAcl], F("[]struct", "0+")] = []


class DeleteAclsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=31, versions="1-3", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    filter_results: Annotated[list[DeleteAclsFilterResult], F("[]struct", "0+")] = []
