"""Keys and values of the records in __transaction_state. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class TransactionLogKey(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-key", api_key=0, versions="0", flexible="none")

    transactional_id: Annotated[str, F("string", "0")] = ""


class PartitionsSchema(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partition_ids: Annotated[list[int], F("[]int32", "0+")] = []


class TransactionLogValue(Message):
    SPEC: ClassVar[Spec] = Spec("coordinator-value", api_key=0, versions="0-1", flexible="1+")

    producer_id: Annotated[int, F("int64", "0+")] = 0
    previous_producer_id: Annotated[int, F("int64", "1+", tag=0, tagged="1+")] = -1
    next_producer_id: Annotated[int, F("int64", "1+", tag=1, tagged="1+")] = -1
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    next_producer_epoch: Annotated[int, F("int16", "1+", tag=3, tagged="1+")] = -1
    transaction_timeout_ms: Annotated[int, F("int32", "0+")] = 0
    transaction_status: Annotated[int, F("int8", "0+")] = 0
    transaction_partitions: Annotated[list[PartitionsSchema] | None, F("[]struct", "0+", nullable="0+")] = []
    transaction_last_update_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    transaction_start_timestamp_ms: Annotated[int, F("int64", "0+")] = 0
    client_transaction_version: Annotated[int, F("int16", "1+", tag=2, tagged="1+")] = 0
