"""The RenewDelegationToken request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class RenewDelegationTokenRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=39, versions="1-2", flexible="2+")

    hmac: Annotated[bytes, F("bytes", "0+")] = b""
    renew_period_ms: Annotated[int, F("int64", "0+")] = 0


class RenewDelegationTokenResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=39, versions="1-2", flexible="2+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    expiry_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
