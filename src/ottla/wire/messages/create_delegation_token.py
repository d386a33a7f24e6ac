"""The CreateDelegationToken request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class CreatableRenewers(Message):
    principal_type: Annotated[str, F("string", "0+")] = ""
    principal_name: Annotated[str, F("string", "0+")] = ""


class CreateDelegationTokenRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=38, versions="1-3", flexible="2+")

    owner_principal_type: Annotated[str | None, F("string", "3+", nullable="3+")] = ""
    owner_principal_name: Annotated[str | None, F("string", "3+", nullable="3+")] = ""
    renewers: Annotated[list[CreatableRenewers], F("[]struct", "0+")] = []
    max_lifetime_ms: Annotated[int, F("int64", "0+")] = 0


class CreateDelegationTokenResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=38, versions="1-3", flexible="2+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    principal_type: Annotated[str, F("string", "0+")] = ""
    principal_name: Annotated[str, F("string", "0+")] = ""
    token_requester_principal_type: Annotated[str, F("string", "3+")] = ""
    token_requester_principal_name: Annotated[str, F("string", "3+")] = ""
    issue_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    expiry_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    max_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    token_id: Annotated[str, F("string", "0+")] = ""
    hmac: Annotated[bytes, F("bytes", "0+")] = b""
    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
