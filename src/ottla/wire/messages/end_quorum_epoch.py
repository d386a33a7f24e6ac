"""The EndQuorumEpoch request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class ReplicaInfo(Message):
    candidate_id: Annotated[int, F("int32", "1+")] = 0
    candidate_directory_id: Annotated[Uuid, F("uuid", "1+")] = ZERO_UUID


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0
    preferred_successors: Annotated[list[int], F("[]int32", "0", ignorable=True)] = []
    preferred_candidates: Annotated[list[ReplicaInfo], F("[]struct", "1+", ignorable=True)] = []


class TopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class LeaderEndpoint(Message):
    name: Annotated[str, F("string", "1+")] = ""
    host: Annotated[str, F("string", "1+")] = ""
    port: Annotated[int, F("uint16", "1+")] = 0


class EndQuorumEpochRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=54, versions="0-1", flexible="1+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], F("[]struct", "1+", ignorable=True)] = []


class EndQuorumEpochResponsePartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0


class EndQuorumEpochResponseTopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[EndQuorumEpochResponsePartitionData], F("[]struct", "0+")] = []


class NodeEndpoint(Message):
    node_id: Annotated[int, F("int32", "1+")] = 0
    host: Annotated[str, F("string", "1+")] = ""
    port: Annotated[int, F("uint16", "1+")] = 0


class EndQuorumEpochResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=54, versions="0-1", flexible="1+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    topics: Annotated[list[EndQuorumEpochResponseTopicData], F("[]struct", "0+")] = []
    node_endpoints: Annotated[list[NodeEndpoint], F("[]struct", "1+", tag=0, tagged="1+")] = []
