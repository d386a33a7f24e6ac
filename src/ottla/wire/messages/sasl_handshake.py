"""The SaslHandshake request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class SaslHandshakeRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=17, versions="0-1", flexible="none")

    mechanism: Annotated[str, F("string", "0+")] = ""


class SaslHandshakeResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=17, versions="0-1", flexible="none")

    error_code: Annotated[int, F("int16", "0+")] = 0
    mechanisms: Annotated[list[str], F("[]string", "0+")] = []
