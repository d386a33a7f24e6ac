"""The Metadata request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class MetadataRequestTopic(Message):
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    name: Annotated[str | None, F("string", "0+", nullable="10+")] = ""


class MetadataRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=3, versions="0-13", flexible="9+")

    topics: Annotated[list[MetadataRequestTopic] | None, F("[]struct", "0+", nullable="1+")] = []
    allow_auto_topic_creation: Annotated[bool, F("bool", "4+")] = True
    include_cluster_authorized_operations: Annotated[bool, F("bool", "8-10")] = False
    include_topic_authorized_operations: Annotated[bool, F("bool", "8+")] = False


class MetadataResponseBroker(Message):
    node_id: Annotated[int, F("int32", "0+")] = 0
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("int32", "0+")] = 0
    rack: Annotated[str | None, F("string", "1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    partition_index: Annotated[int, F("int32", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "7+", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], F("[]int32", "0+")] = []
    isr_nodes: Annotated[list[int], F("[]int32", "0+")] = []
    offline_replicas: Annotated[list[int], F("[]int32", "5+", ignorable=True)] = []


class MetadataResponseTopic(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    name: Annotated[str | None, F("string", "0+", nullable="12+")] = ""
    topic_id: Annotated[Uuid, F("uuid", "10+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, F("bool", "1+", ignorable=True)] = False
    partitions: Annotated[list[MetadataResponsePartition], F("[]struct", "0+")] = []
    topic_authorized_operations: Annotated[int, F("int32", "8+")] = -2147483648


class MetadataResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=3, versions="0-13", flexible="9+")

    throttle_time_ms: Annotated[int, F("int32", "3+", ignorable=True)] = 0
    brokers: Annotated[list[MetadataResponseBroker], F("[]struct", "0+")] = []
    cluster_id: Annotated[str | None, F("string", "2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[int, F("int32", "1+", ignorable=True)] = -1
    topics: Annotated[list[MetadataResponseTopic], F("[]struct", "0+")] = []
    cluster_authorized_operations: Annotated[int, F("int32", "8-10")] = -2147483648
    error_code: Annotated[int, F("int16", "13+", ignorable=True)] = 0
