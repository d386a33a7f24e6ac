"""The DescribeTransactions request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribeTransactionsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=65, versions="0", flexible="0+")

    transactional_ids: Annotated[list[str], F("[]string", "0+")] = []


class TopicData(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class TransactionState(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    transactional_id: Annotated[str, F("string", "0+")] = ""
    transaction_state: Annotated[str, F("string", "0+")] = ""
    transaction_timeout_ms: Annotated[int, F("int32", "0+")] = 0
    transaction_start_time_ms: Annotated[int, F("int64", "0+")] = 0
    producer_id: Annotated[int, F("int64", "0+")] = 0
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []


class DescribeTransactionsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=65, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    transaction_states: Annotated[list[TransactionState], F("[]struct", "0+")] = []
