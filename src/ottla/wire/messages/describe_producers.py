"""The DescribeProducers request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class TopicRequest(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partition_indexes: Annotated[list[int], F("[]int32", "0+")] = []


class DescribeProducersRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=61, versions="0", flexible="0+")

    topics: Annotated[list[TopicRequest], F("[]struct", "0+")] = []


class ProducerState(Message):
    producer_id: Annotated[int, F("int64", "0+")] = 0
    producer_epoch: Annotated[int, F("int32", "0+")] = 0
    last_sequence: Annotated[int, F("int32", "0+")] = -1
    last_timestamp: Annotated[int, F("int64", "0+")] = -1
    coordinator_epoch: Annotated[int, F("int32", "0+")] = 0
    current_txn_start_offset: Annotated[int, F("int64", "0+")] = -1


class PartitionResponse(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    active_producers: Annotated[list[ProducerState], F("[]struct", "0+")] = []


class TopicResponse(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[PartitionResponse], F("[]struct", "0+")] = []


class DescribeProducersResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=61, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    topics: Annotated[list[TopicResponse], F("[]struct", "0+")] = []
