"""The SaslAuthenticate request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class SaslAuthenticateRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=36, versions="0-2", flexible="2+")

    auth_bytes: Annotated[bytes, F("bytes", "0+")] = b""


class SaslAuthenticateResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=36, versions="0-2", flexible="2+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    auth_bytes: Annotated[bytes, F("bytes", "0+")] = b""
    session_lifetime_ms: Annotated[int, F("int64", "1+", ignorable=True)] = 0
