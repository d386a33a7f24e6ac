"""The AlterClientQuotas request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class EntityData(Message):
    entity_type: Annotated[str, F("string", "0+")] = ""
    entity_name: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class OpData(Message):
    key: Annotated[str, F("string", "0+")] = ""
    value: Annotated[float, F("float64", "0+")] = 0.0
    remove: Annotated[bool, F("bool", "0+")] = False


class EntryData(Message):
    entity: Annotated[list[EntityData], F("[]struct", "0+")] = []
    ops: Annotated[list[OpData], F("[]struct", "0+")] = []


class AlterClientQuotasRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=49, versions="0-1", flexible="1+")

    entries: Annotated[list[EntryData], F("[]struct", "0+")] = []
    validate_only: Annotated[bool, F("bool", "0+")] = False


class AlterClientQuotasResponseEntityData(Message):
    entity_type: Annotated[str, F("string", "0+")] = ""
    entity_name: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class AlterClientQuotasResponseEntryData(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    entity: Annotated[list[AlterClientQuotasResponseEntityData], F("[]struct", "0+")] = []


class AlterClientQuotasResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=49, versions="0-1", flexible="1+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    entries: Annotated[list[AlterClientQuotasResponseEntryData], F("[]struct", "0+")] = []
