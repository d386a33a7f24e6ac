"""The Vote request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    replica_epoch: Annotated[int, F("int32", "0+")] = 0
    replica_id: Annotated[int, F("int32", "0+")] = 0
    replica_directory_id: Annotated[Uuid, F("uuid", "1+", ignorable=True)] = ZERO_UUID
    voter_directory_id: Annotated[Uuid, F("uuid", "1+", ignorable=True)] = ZERO_UUID
    last_offset_epoch: Annotated[int, F("int32", "0+")] = 0
    last_offset: Annotated[int, F("int64", "0+")] = 0
    pre_vote: Annotated[bool, F("bool", "2+")] = False


class TopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class VoteRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=52, versions="0-2", flexible="0+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    voter_id: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []


class VoteResponsePartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0
    vote_granted: Annotated[bool, F("bool", "0+")] = False


class VoteResponseTopicData(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[VoteResponsePartitionData], F("[]struct", "0+")] = []


class NodeEndpoint(Message):
    node_id: Annotated[int, F("int32", "1+")] = 0
    host: Annotated[str, F("string", "1+")] = ""
    port: Annotated[int, F("uint16", "1+")] = 0


class VoteResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=52, versions="0-2", flexible="0+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    topics: Annotated[list[VoteResponseTopicData], F("[]struct", "0+")] = []
    node_endpoints: Annotated[list[NodeEndpoint], F("[]struct", "1+", tag=0, tagged="1+")] = []
