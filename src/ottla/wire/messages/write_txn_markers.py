"""The WriteTxnMarkers request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class WritableTxnMarkerTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partition_indexes: Annotated[list[int], F("[]int32", "0+")] = []


class WritableTxnMarker(Message):
    producer_id: Annotated[int, F("int64", "0+")] = 0
    producer_epoch: Annotated[int, F("int16", "0+")] = 0
    transaction_result: Annotated[bool, F("bool", "0+")] = False
    topics: Annotated[list[WritableTxnMarkerTopic], F("[]struct", "0+")] = []
    coordinator_epoch: Annotated[int, F("int32", "0+")] = 0
    transaction_version: Annotated[int, F("int8", "2+", ignorable=True)] = 0


class WriteTxnMarkersRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=27, versions="1-2", flexible="1+")

    markers: Annotated[list[WritableTxnMarker], F("[]struct", "0+")] = []


class WritableTxnMarkerPartitionResult(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class WritableTxnMarkerTopicResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[WritableTxnMarkerPartitionResult], F("[]struct", "0+")] = []


class WritableTxnMarkerResult(Message):
    producer_id: Annotated[int, F("int64", "0+")] = 0
    topics: Annotated[list[WritableTxnMarkerTopicResult], F("[]struct", "0+")] = []


class WriteTxnMarkersResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=27, versions="1-2", flexible="1+")

    markers: Annotated[list[WritableTxnMarkerResult], F("[]struct", "0+")] = []
