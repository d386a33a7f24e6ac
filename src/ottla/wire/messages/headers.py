"""The headers before every request and response. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class RequestHeader(Message):
    SPEC: ClassVar[Spec] = Spec("header", versions="1-2", flexible="2+")

    request_api_key: Annotated[int, F("int16", "0+")] = 0
    request_api_version: Annotated[int, F("int16", "0+")] = 0
    correlation_id: Annotated[int, F("int32", "0+")] = 0
    client_id: Annotated[str | None, F("string", "1+", nullable="1+", flexible="none")] = ""


class ResponseHeader(Message):
    SPEC: ClassVar[Spec] = Spec("header", versions="0-1", flexible="1+")

    correlation_id: Annotated[int, F("int32", "0+")] = 0
