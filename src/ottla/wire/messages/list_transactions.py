"""The ListTransactions request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ListTransactionsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=66, versions="0-2", flexible="0+")

    state_filters: Annotated[list[str], F("[]string", "0+")] = []
    producer_id_filters: Annotated[list[int], F("[]int64", "0+")] = []
    duration_filter: Annotated[int, F("int64", "1+")] = -1
    transactional_id_pattern: Annotated[str | None, F("string", "2+", nullable="2+")] = None


class TransactionState(Message):
    transactional_id: Annotated[str, F("string", "0+")] = ""
    producer_id: Annotated[int, F("int64", "0+")] = 0
    transaction_state: Annotated[str, F("string", "0+")] = ""


class ListTransactionsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=66, versions="0-2", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    unknown_state_filters: Annotated[list[str], F("[]string", "0+")] = []
    transaction_states: Annotated[list[TransactionState], F("[]struct", "0+")] = []
