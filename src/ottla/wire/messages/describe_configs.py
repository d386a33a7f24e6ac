"""The DescribeConfigs request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribeConfigsResource(Message):
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    configuration_keys: Annotated[list[str] | None, F("[]string", "0+", nullable="0+")] = []


class DescribeConfigsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=32, versions="1-4", flexible="4+")

    resources: Annotated[list[DescribeConfigsResource], F("[]struct", "0+")] = []
    include_synonyms: Annotated[bool, F("bool", "1+")] = False
    include_documentation: Annotated[bool, F("bool", "3+")] = False


class DescribeConfigsSynonym(Message):
    name: Annotated[str, F("string", "1+")] = ""
    value: Annotated[str | None, F("string", "1+", nullable="0+")] = ""
    source: Annotated[int, F("int8", "1+")] = 0


class DescribeConfigsResourceResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    value: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    read_only: Annotated[bool, F("bool", "0+")] = False
    config_source: Annotated[int, F("int8", "1+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, F("bool", "0+")] = False
    synonyms: Annotated[list[DescribeConfigsSynonym], F("[]struct", "1+", ignorable=True)] = []
    config_type: Annotated[int, F("int8", "3+", ignorable=True)] = 0
    documentation: Annotated[str | None, F("string", "3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsResult(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    configs: Annotated[list[DescribeConfigsResourceResult], F("[]struct", "0+")] = []


class DescribeConfigsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=32, versions="1-4", flexible="4+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[DescribeConfigsResult], F("[]struct", "0+")] = []
