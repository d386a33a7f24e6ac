"""The Produce request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Records, Spec


class PartitionProduceData(Message):
    index: Annotated[int, F("int32", "0+")] = 0
    records: Annotated[Records | None, F("records", "0+", nullable="0+")] = None


class TopicProduceData(Message):
    name: Annotated[str, F("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "13+", ignorable=True)] = ZERO_UUID
    partition_data: Annotated[list[PartitionProduceData], F("[]struct", "0+")] = []


class ProduceRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=0, versions="3-13", flexible="9+")

    transactional_id: Annotated[str | None, F("string", "3+", nullable="3+")] = None
    acks: Annotated[int, F("int16", "0+")] = 0
    timeout_ms: Annotated[int, F("int32", "0+")] = 0
    topic_data: Annotated[list[TopicProduceData], F("[]struct", "0+")] = []


class BatchIndexAndErrorMessage(Message):
    batch_index: Annotated[int, F("int32", "8+")] = 0
    batch_index_error_message: Annotated[str | None, F("string", "8+", nullable="8+")] = None


class LeaderIdAndEpoch(Message):
    leader_id: Annotated[int, F("int32", "10+")] = -1
    leader_epoch: Annotated[int, F("int32", "10+")] = -1


class PartitionProduceResponse(Message):
    index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    base_offset: Annotated[int, F("int64", "0+")] = 0
    log_append_time_ms: Annotated[int, F("int64", "2+", ignorable=True)] = -1
    log_start_offset: Annotated[int, F("int64", "5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], F("[]struct", "8+", ignorable=True)] = []
    error_message: Annotated[str | None, F("string", "8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, F("struct", "10+", tag=0, tagged="10+")] = field(
        default_factory=LeaderIdAndEpoch
    )


class TopicProduceResponse(Message):
    name: Annotated[str, F("string", "0-12", ignorable=True)] = ""
    topic_id: Annotated[Uuid, F("uuid", "13+", ignorable=True)] = ZERO_UUID
    partition_responses: Annotated[list[PartitionProduceResponse], F("[]struct", "0+")] = []


class NodeEndpoint(Message):
    node_id: Annotated[int, F("int32", "10+")] = 0
    host: Annotated[str, F("string", "10+")] = ""
    port: Annotated[int, F("int32", "10+")] = 0
    rack: Annotated[str | None, F("string", "10+", nullable="10+")] = None


class ProduceResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=0, versions="3-13", flexible="9+")

    responses: Annotated[list[TopicProduceResponse], F("[]struct", "0+")] = []
    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], F("[]struct", "10+", tag=0, tagged="10+")] = []
