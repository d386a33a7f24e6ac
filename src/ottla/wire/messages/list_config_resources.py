"""The ListConfigResources request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ListConfigResourcesRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=74, versions="0-1", flexible="0+")

    resource_types: Annotated[list[int], F("[]int8", "1+")] = []


class ConfigResource(Message):
    resource_name: Annotated[str, F("string", "0+")] = ""
    resource_type: Annotated[int, F("int8", "1+", ignorable=True)] = 16


class ListConfigResourcesResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=74, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    config_resources: Annotated[list[ConfigResource], F("[]struct", "0+")] = []
