"""The AlterReplicaLogDirs request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class AlterReplicaLogDirTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class AlterReplicaLogDir(Message):
    path: Annotated[str, F("string", "0+")] = ""
    topics: Annotated[list[AlterReplicaLogDirTopic], F("[]struct", "0+")] = []


class AlterReplicaLogDirsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=34, versions="1-2", flexible="2+")

    dirs: Annotated[list[AlterReplicaLogDir], F("[]struct", "0+")] = []


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[AlterReplicaLogDirPartitionResult], F("[]struct", "0+")] = []


class AlterReplicaLogDirsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=34, versions="1-2", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    results: Annotated[list[AlterReplicaLogDirTopicResult], F("[]struct", "0+")] = []
