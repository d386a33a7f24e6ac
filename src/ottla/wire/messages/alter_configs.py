"""The AlterConfigs request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class AlterableConfig(Message):
    name: Annotated[str, F("string", "0+")] = ""
    value: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class AlterConfigsResource(Message):
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    configs: Annotated[list[AlterableConfig], F("[]struct", "0+")] = []


class AlterConfigsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=33, versions="0-2", flexible="2+")

    resources: Annotated[list[AlterConfigsResource], F("[]struct", "0+")] = []
    validate_only: Annotated[bool, F("bool", "0+")] = False


class AlterConfigsResourceResponse(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""


class AlterConfigsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=33, versions="0-2", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    responses: Annotated[list[AlterConfigsResourceResponse], F("[]struct", "0+")] = []
