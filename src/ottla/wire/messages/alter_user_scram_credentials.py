"""The AlterUserScramCredentials request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ScramCredentialDeletion(Message):
    name: Annotated[str, F("string", "0+")] = ""
    mechanism: Annotated[int, F("int8", "0+")] = 0


class ScramCredentialUpsertion(Message):
    name: Annotated[str, F("string", "0+")] = ""
    mechanism: Annotated[int, F("int8", "0+")] = 0
    iterations: Annotated[int, F("int32", "0+")] = 0
    salt: Annotated[bytes, F("bytes", "0+")] = b""
    salted_password: Annotated[bytes, F("bytes", "0+")] = b""


class AlterUserScramCredentialsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=51, versions="0", flexible="0+")

    deletions: Annotated[list[ScramCredentialDeletion], F("[]struct", "0+")] = []
    upsertions: Annotated[list[ScramCredentialUpsertion], F("[]struct", "0+")] = []


class AlterUserScramCredentialsResult(Message):
    user: Annotated[str, F("string", "0+")] = ""
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=51, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[AlterUserScramCredentialsResult], F("[]struct", "0+")] = []
