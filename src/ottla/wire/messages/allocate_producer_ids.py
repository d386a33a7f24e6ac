"""The AllocateProducerIds request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class AllocateProducerIdsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=67, versions="0", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1


class AllocateProducerIdsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=67, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    producer_id_start: Annotated[int, F("int64", "0+")] = 0
    producer_id_len: Annotated[int, F("int32", "0+")] = 0
