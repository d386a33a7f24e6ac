"""The ControllerRegistration request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class Listener(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0
    security_protocol: Annotated[int, F("int16", "0+")] = 0


class Feature(Message):
    name: Annotated[str, F("string", "0+")] = ""
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class ControllerRegistrationRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=70, versions="0", flexible="0+")

    controller_id: Annotated[int, F("int32", "0+")] = 0
    incarnation_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, F("bool", "0+")] = False
    listeners: Annotated[list[Listener], F("[]struct", "0+")] = []
    features: Annotated[list[Feature], F("[]struct", "0+")] = []


class ControllerRegistrationResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=70, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
