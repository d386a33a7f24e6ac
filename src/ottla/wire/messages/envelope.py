"""The Envelope request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class EnvelopeRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=58, versions="0", flexible="0+")

    request_data: Annotated[bytes, F("bytes", "0+")] = b""
    request_principal: Annotated[bytes | None, F("bytes", "0+", nullable="0+")] = b""
    client_host_address: Annotated[bytes, F("bytes", "0+")] = b""


class EnvelopeResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=58, versions="0", flexible="0+")

    response_data: Annotated[bytes | None, F("bytes", "0+", nullable="0+")] = None
    error_code: Annotated[int, F("int16", "0+")] = 0
