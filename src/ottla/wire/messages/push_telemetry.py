"""The PushTelemetry request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class PushTelemetryRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=72, versions="0", flexible="0+")

    client_instance_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    subscription_id: Annotated[int, F("int32", "0+")] = 0
    terminating: Annotated[bool, F("bool", "0+")] = False
    compression_type: Annotated[int, F("int8", "0+")] = 0
    metrics: Annotated[bytes, F("bytes", "0+")] = b""


class PushTelemetryResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=72, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
