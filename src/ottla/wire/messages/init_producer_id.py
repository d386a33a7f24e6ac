"""The InitProducerId request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class InitProducerIdRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=22, versions="0-6", flexible="2+")

    transactional_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    transaction_timeout_ms: Annotated[int, F("int32", "0+")] = 0
    producer_id: Annotated[int, F("int64", "3+")] = -1
    producer_epoch: Annotated[int, F("int16", "3+")] = -1
    enable2_pc: Annotated[bool, F("bool", "6+")] = False
    keep_prepared_txn: Annotated[bool, F("bool", "6+")] = False


class InitProducerIdResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=22, versions="0-6", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    producer_id: Annotated[int, F("int64", "0+")] = -1
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    ongoing_txn_producer_id: Annotated[int, F("int64", "6+")] = -1
    ongoing_txn_producer_epoch: Annotated[int, F("int16", "6+")] = -1
