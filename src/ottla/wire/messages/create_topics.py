"""The CreateTopics request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class CreatableReplicaAssignment(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    broker_ids: Annotated[list[int], F("[]int32", "0+")] = []


class CreatableTopicConfig(Message):
    name: Annotated[str, F("string", "0+")] = ""
    value: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class CreatableTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    num_partitions: Annotated[int, F("int32", "0+")] = 0
    replication_factor: Annotated[int, F("int16", "0+")] = 0
    assignments: Annotated[list[CreatableReplicaAssignment], F("[]struct", "0+")] = []
    configs: Annotated[list[CreatableTopicConfig], F("[]struct", "0+")] = []


class CreateTopicsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=19, versions="2-7", flexible="5+")

    topics: Annotated[list[CreatableTopic], F("[]struct", "0+")] = []
    timeout_ms: Annotated[int, F("int32", "0+")] = 60000
    validate_only: Annotated[bool, F("bool", "1+")] = False


class CreatableTopicConfigs(Message):
    name: Annotated[str, F("string", "5+")] = ""
    value: Annotated[str | None, F("string", "5+", nullable="5+")] = ""
    read_only: Annotated[bool, F("bool", "5+")] = False
    config_source: Annotated[int, F("int8", "5+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, F("bool", "5+")] = False


class CreatableTopicResult(Message):
    name: Annotated[str, F("string", "0+")] = ""
    topic_id: Annotated[Uuid, F("uuid", "7+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "1+", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[int, F("int16", "5+", tag=0, tagged="5+", ignorable=True)] = 0
    num_partitions: Annotated[int, F("int32", "5+", ignorable=True)] = -1
    replication_factor: Annotated[int, F("int16", "5+", ignorable=True)] = -1
    configs: Annotated[
        list[CreatableTopicConfigs] | None, F("[]struct", "5+", nullable="5+", ignorable=True)
    ] = []


class CreateTopicsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=19, versions="2-7", flexible="5+")

    throttle_time_ms: Annotated[int, F("int32", "2+", ignorable=True)] = 0
    topics: Annotated[list[CreatableTopicResult], F("[]struct", "0+")] = []
