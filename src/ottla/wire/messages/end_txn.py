"""The EndTxn request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class EndTxnRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=26, versions="0-5", flexible="3+")

    transactional_id: Annotated[str, F("string", "0+")] = ""
    producer_id: Annotated[int, F("int64", "0+")] = 0
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    committed: Annotated[bool, F("bool", "0+")] = False


class EndTxnResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=26, versions="0-5", flexible="3+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    producer_id: Annotated[int, F("int64", "5+", ignorable=True)] = -1
    producer_epoch: Annotated[int, F("int16", "5+", ignorable=True)] = -1
