"""The AlterPartition request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class BrokerState(Message):
    broker_id: Annotated[int, F("int32", "3+")] = 0
    broker_epoch: Annotated[int, F("int64", "3+")] = -1


class PartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0
    new_isr: Annotated[list[int], F("[]int32", "0-2")] = []
    new_isr_with_epochs: Annotated[list[BrokerState], F("[]struct", "3+")] = []
    leader_recovery_state: Annotated[int, F("int8", "1+")] = 0
    partition_epoch: Annotated[int, F("int32", "0+")] = 0


class TopicData(Message):
    topic_id: Annotated[Uuid, F("uuid", "2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[PartitionData], F("[]struct", "0+")] = []


class AlterPartitionRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=56, versions="2-3", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1
    topics: Annotated[list[TopicData], F("[]struct", "0+")] = []


class AlterPartitionResponsePartitionData(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = 0
    isr: Annotated[list[int], F("[]int32", "0+")] = []
    leader_recovery_state: Annotated[int, F("int8", "1+", ignorable=True)] = 0
    partition_epoch: Annotated[int, F("int32", "0+")] = 0


class AlterPartitionResponseTopicData(Message):
    topic_id: Annotated[Uuid, F("uuid", "2+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[AlterPartitionResponsePartitionData], F("[]struct", "0+")] = []


class AlterPartitionResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=56, versions="2-3", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    topics: Annotated[list[AlterPartitionResponseTopicData], F("[]struct", "0+")] = []
