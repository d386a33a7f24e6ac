"""The ListPartitionReassignments request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ListPartitionReassignmentsTopics(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partition_indexes: Annotated[list[int], F("[]int32", "0+")] = []


class ListPartitionReassignmentsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=46, versions="0", flexible="0+")

    timeout_ms: Annotated[int, F("int32", "0+")] = 60000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, F("[]struct", "0+", nullable="0+")] = (
        None
    )


class OngoingPartitionReassignment(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    replicas: Annotated[list[int], F("[]int32", "0+")] = []
    adding_replicas: Annotated[list[int], F("[]int32", "0+")] = []
    removing_replicas: Annotated[list[int], F("[]int32", "0+")] = []


class OngoingTopicReassignment(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[OngoingPartitionReassignment], F("[]struct", "0+")] = []


class ListPartitionReassignmentsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=46, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    topics: Annotated[list[OngoingTopicReassignment], F("[]struct", "0+")] = []
