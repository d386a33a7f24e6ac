"""The DescribeClientQuotas request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ComponentData(Message):
    entity_type: Annotated[str, F("string", "0+")] = ""
    match_type: Annotated[int, F("int8", "0+")] = 0
    match: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class DescribeClientQuotasRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=48, versions="0-1", flexible="1+")

    components: Annotated[list[ComponentData], F("[]struct", "0+")] = []
    strict: Annotated[bool, F("bool", "0+")] = False


class EntityData(Message):
    entity_type: Annotated[str, F("string", "0+")] = ""
    entity_name: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class ValueData(Message):
    key: Annotated[str, F("string", "0+")] = ""
    value: Annotated[float, F("float64", "0+")] = 0.0


class EntryData(Message):
    entity: Annotated[list[EntityData], F("[]struct", "0+")] = []
    values: Annotated[list[ValueData], F("[]struct", "0+")] = []


class DescribeClientQuotasResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=48, versions="0-1", flexible="1+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    entries: Annotated[list[EntryData] | None, F("[]struct", "0+", nullable="0+")] = []
