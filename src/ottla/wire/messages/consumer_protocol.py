"""Subscriptions and assignments of members of classic groups. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class TopicPartition(Message):
    topic: Annotated[str, F("string", "1+")] = ""
    partitions: Annotated[list[int], F("[]int32", "1+")] = []


class ConsumerProtocolSubscription(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0-3", flexible="none")

    topics: Annotated[list[str], F("[]string", "0+")] = []
    user_data: Annotated[bytes | None, F("bytes", "0+", nullable="0+")] = None
    owned_partitions: Annotated[list[TopicPartition], F("[]struct", "1+", ignorable=True)] = []
    generation_id: Annotated[int, F("int32", "2+", ignorable=True)] = -1
    rack_id: Annotated[str | None, F("string", "3+", nullable="3+", ignorable=True)] = None


class ConsumerProtocolAssignmentTopicPartition(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class ConsumerProtocolAssignment(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0-3", flexible="none")

    assigned_partitions: Annotated[list[ConsumerProtocolAssignmentTopicPartition], F("[]struct", "0+")] = []
    user_data: Annotated[bytes | None, F("bytes", "0+", nullable="0+")] = None
