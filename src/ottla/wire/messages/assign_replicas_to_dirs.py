"""The AssignReplicasToDirs request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0


class TopicData(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class DirectoryData(Message):
    id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []


class AssignReplicasToDirsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=73, versions="0", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1
    directories: Annotated[list[DirectoryData], F("[]struct", "0+")] = []


class AssignReplicasToDirsResponsePartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class AssignReplicasToDirsResponseTopicData(Message):
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    partitions: Annotated[list[AssignReplicasToDirsResponsePartitionData], F("[]struct", "0+")] = []


class AssignReplicasToDirsResponseDirectoryData(Message):
    id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    topics: Annotated[list[AssignReplicasToDirsResponseTopicData], F("[]struct", "0+")] = []


class AssignReplicasToDirsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=73, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    directories: Annotated[list[AssignReplicasToDirsResponseDirectoryData], F("[]struct", "0+")] = []
