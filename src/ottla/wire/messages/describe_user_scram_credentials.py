"""The DescribeUserScramCredentials request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class UserName(Message):
    name: Annotated[str, F("string", "0+")] = ""


class DescribeUserScramCredentialsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=50, versions="0", flexible="0+")

    users: Annotated[list[UserName] | None, F("[]struct", "0+", nullable="0+")] = []


class CredentialInfo(Message):
    mechanism: Annotated[int, F("int8", "0+")] = 0
    iterations: Annotated[int, F("int32", "0+")] = 0


class DescribeUserScramCredentialsResult(Message):
    user: Annotated[str, F("string", "0+")] = ""
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    credential_infos: Annotated[list[CredentialInfo], F("[]struct", "0+")] = []


class DescribeUserScramCredentialsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=50, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    results: Annotated[list[DescribeUserScramCredentialsResult], F("[]struct", "0+")] = []
