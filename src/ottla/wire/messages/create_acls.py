"""The CreateAcls request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class AclCreation(Message):
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    resource_pattern_type: Annotated[int, F("int8", "1+")] = 3
    principal: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    operation: Annotated[int, F("int8", "0+")] = 0
    permission_type: Annotated[int, F("int8", "0+")] = 0


class CreateAclsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=30, versions="1-3", flexible="2+")

    creations: Annotated[list[AclCreation], F("[]struct", "0+")] = []


class AclCreationResult(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class CreateAclsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=30, versions="1-3", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[AclCreationResult], F("[]struct", "0+")] = []
