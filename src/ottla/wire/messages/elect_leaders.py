"""The ElectLeaders request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class TopicPartitions(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class ElectLeadersRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=43, versions="0-2", flexible="2+")

    election_type: Annotated[int, F("int8", "1+")] = 0
    topic_partitions: Annotated[list[TopicPartitions] | None, F("[]struct", "0+", nullable="0+")] = []
    timeout_ms: Annotated[int, F("int32", "0+")] = 60000


class PartitionResult(Message):
    partition_id: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class ReplicaElectionResult(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partition_result: Annotated[list[PartitionResult], F("[]struct", "0+")] = []


class ElectLeadersResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=43, versions="0-2", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "1+")] = 0
    replica_election_results: Annotated[list[ReplicaElectionResult], F("[]struct", "0+")] = []
