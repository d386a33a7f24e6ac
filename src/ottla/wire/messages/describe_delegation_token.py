"""The DescribeDelegationToken request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribeDelegationTokenOwner(Message):
    principal_type: Annotated[str, F("string", "0+")] = ""
    principal_name: Annotated[str, F("string", "0+")] = ""


class DescribeDelegationTokenRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=41, versions="1-3", flexible="2+")

    owners: Annotated[list[DescribeDelegationTokenOwner] | None, F("[]struct", "0+", nullable="0+")] = []


class DescribedDelegationTokenRenewer(Message):
    principal_type: Annotated[str, F("string", "0+")] = ""
    principal_name: Annotated[str, F("string", "0+")] = ""


class DescribedDelegationToken(Message):
    principal_type: Annotated[str, F("string", "0+")] = ""
    principal_name: Annotated[str, F("string", "0+")] = ""
    token_requester_principal_type: Annotated[str, F("string", "3+")] = ""
    token_requester_principal_name: Annotated[str, F("string", "3+")] = ""
    issue_timestamp: Annotated[int, F("int64", "0+")] = 0
    expiry_timestamp: Annotated[int, F("int64", "0+")] = 0
    max_timestamp: Annotated[int, F("int64", "0+")] = 0
    token_id: Annotated[str, F("string", "0+")] = ""
    hmac: Annotated[bytes, F("bytes", "0+")] = b""
    renewers: Annotated[list[DescribedDelegationTokenRenewer], F("[]struct", "0+")] = []


class DescribeDelegationTokenResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=41, versions="1-3", flexible="2+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    tokens: Annotated[list[DescribedDelegationToken], F("[]struct", "0+")] = []
    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
