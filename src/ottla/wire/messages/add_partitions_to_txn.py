"""The AddPartitionsToTxn request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class AddPartitionsToTxnTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class AddPartitionsToTxnTransaction(Message):
    transactional_id: Annotated[str, F("string", "4+")] = ""
    producer_id: Annotated[int, F("int64", "4+")] = 0
    producer_epoch: Annotated[int, F("int16", "4+")] = 0
    verify_only: Annotated[bool, F("bool", "4+")] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], F("[]struct", "4+")] = []


class AddPartitionsToTxnRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=24, versions="0-5", flexible="3+")

    transactions: Annotated[list[AddPartitionsToTxnTransaction], F("[]struct", "4+")] = []
    v3_and_below_transactional_id: Annotated[str, F("string", "0-3")] = ""
    v3_and_below_producer_id: Annotated[int, F("int64", "0-3")] = 0
    v3_and_below_producer_epoch: Annotated[int, F("int16", "0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], F("[]struct", "0-3")] = []


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    partition_error_code: Annotated[int, F("int16", "0+")] = 0


class AddPartitionsToTxnTopicResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    results_by_partition: Annotated[list[AddPartitionsToTxnPartitionResult], F("[]struct", "0+")] = []


class AddPartitionsToTxnResult(Message):
    transactional_id: Annotated[str, F("string", "4+")] = ""
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], F("[]struct", "4+")] = []


class AddPartitionsToTxnResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=24, versions="0-5", flexible="3+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "4+", ignorable=True)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], F("[]struct", "4+")] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], F("[]struct", "0-3")] = []
