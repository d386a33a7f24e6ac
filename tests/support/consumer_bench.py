"""A harness for the state machine of groups, with methods for the requests of consumer group members.

Members are named by their ids. `topic=(0, 1)` stands for partitions of a topic. The clock moves only by `advance`;
targets are computed at once unless a test configures an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.runtime.decision import LogRecord
from ottla.metadata.records import PartitionRecord
from ottla.wire import codec
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.group_bench import CLIENT, GroupBench
from tests.support.metadata import topic_id_of

GROUP = "g"
TIMEOUT_MS = 60_000
PROTOCOL_VERSION = 3
Parts = Mapping[str, tuple[int, ...]]


class HeartbeatResult(NamedTuple):
    """The response to a heartbeat: the epoch, and the partitions if it lists them."""

    epoch: int
    parts: Parts | None


class Refused(NamedTuple):
    """The error of a request."""

    code: ErrorCode
    text: str | None


class ConsumerBench(GroupBench):
    """One shard with consumer groups."""

    def __init__(self, settings: Mapping[str, str] | None = None, **topics: int) -> None:
        super().__init__(settings={"group.consumer.assignment.interval.ms": "0", **(settings or {})})
        for name, partitions in topics.items():
            self.create_topic(name, partitions)

    # Topics

    def add_partitions(self, name: str, total: int) -> None:
        topic = self.image.topics.by_name[name]
        self._change(
            PartitionRecord(
                partition_id=index, topic_id=topic.topic_id, replicas=[1], isr=[1], leader=1, directories=[]
            )
            for index in range(len(topic.partitions), total)
        )

    # Requests of the consumer protocol

    def request(self, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        owned = fields.pop("owned", None)
        listed = None
        if owned is not None:
            listed = [
                TopicPartitions(topic_id=topic_id_of(name), partitions=list(partitions))
                for name, partitions in owned.items()
            ]
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": GROUP,
                "member_id": member,
                "member_epoch": epoch,
                "topic_partitions": listed,
                **fields,
            }
        )

    def send(
        self, request: ConsumerGroupHeartbeatRequest, version: int = 1
    ) -> ConsumerGroupHeartbeatResponse:
        response = self.write(lambda machine: machine.consumer_heartbeat(request, CLIENT, version)).result()
        self.advance(0)
        return response

    def beat(self, member: str, epoch: int, version: int = 1, **fields: Any) -> HeartbeatResult:
        """A heartbeat of a member."""
        response = self.send(self.request(member, epoch, **fields), version)
        return HeartbeatResult(response.member_epoch, self._named(response))

    def join(self, member: str, *topics: str, version: int = 1, **fields: Any) -> HeartbeatResult:  # type: ignore[override]
        """The first heartbeat of a member."""
        fields = {"rebalance_timeout_ms": TIMEOUT_MS, "owned": {}, **fields}
        if topics or "subscribed_topic_regex" not in fields:
            fields["subscribed_topic_names"] = list(topics)
        return self.beat(member, 0, version, **fields)

    def refused(self, member: str, epoch: int, version: int = 1, **fields: Any) -> Refused:
        """A heartbeat that must be refused and append nothing."""
        before = len(self.log)
        try:
            response = self.beat(member, epoch, version, **fields)
        except ApiError as error:
            if len(self.log) != before:
                raise AssertionError("a refused request appended records") from None
            return Refused(error.code, error.message)
        raise AssertionError(f"accepted: {response}")

    def _named(self, response: ConsumerGroupHeartbeatResponse) -> Parts | None:
        if response.assignment is None:
            return None
        return {
            self._name(each.topic_id): tuple(each.partitions) for each in response.assignment.topic_partitions
        }

    def _name(self, topic_id: object) -> str:
        known = {topic_id_of(name): name for name in (*self.image.topics.by_name, "t", "u", "gone")}
        return known[topic_id]  # type: ignore[index]

    def named(self, held: Mapping[Any, Iterable[int]]) -> Parts:
        """Partitions by the names of their topics."""
        return {self._name(topic): tuple(sorted(partitions)) for topic, partitions in held.items()}

    def settle(self, *members: str) -> None:
        """Let members send heartbeats with their assigned partitions until nothing changes."""
        for _ in range(10 * len(members)):
            before = len(self.log)
            for name in members:
                member = self.member(name)
                self.beat(
                    name, member.epoch, owned=self.named(member.assigned), instance_id=member.instance_id
                )
            if len(self.log) == before:
                return
        raise AssertionError("the group does not become stable")

    # Requests of the classic protocol

    def classic_request(
        self, member: str, *topics: str, owned: Parts | None = None, **fields: Any
    ) -> JoinGroupRequest:
        names = fields.pop("protocols", ("range",))
        metadata = subscription_of(topics, owned or {}, fields.pop("user_data", None))
        return JoinGroupRequest(
            **{
                "group_id": GROUP,
                "member_id": member,
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": TIMEOUT_MS,
                "protocol_type": "consumer",
                "protocols": [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
                **fields,
            }
        )

    def classic_join(self, member: str, *topics: str, version: int = 9, **fields: Any) -> JoinGroupResponse:
        request = self.classic_request(member, *topics, **fields)
        promise = self.write(lambda machine: machine.join(request, CLIENT, version))
        self.advance(0)
        return promise.result()

    def classic_sync(
        self, member: str, generation: int, plan: Mapping[str, bytes] | None = None, **fields: Any
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member,
            generation_id=generation,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (plan or {}).items()
            ],
            **fields,
        )
        return self.write(lambda machine: machine.sync(request)).result()

    def synced(self, member: str, generation: int) -> Parts:
        """The partitions in the response to a SyncGroup."""
        response = self.classic_sync(member, generation)
        if response.error_code:
            raise AssertionError(ErrorCode(response.error_code).name)
        return parts_of(response.assignment)

    def classic_beat(self, member: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=member, generation_id=generation, group_instance_id=instance
        )
        try:
            response = self.write(lambda machine: machine.heartbeat(request)).result()
        except ApiError as error:
            return error.code
        return ErrorCode(response.error_code)

    def classic_leave(self, *members: str, instance: str | None = None) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=each, group_instance_id=instance) for each in members],
        )
        response = self.write(lambda machine: machine.leave(request, 5)).result()
        self.advance(0)
        return [ErrorCode(each.error_code) for each in response.members]

    def classic_group(self, plan: Parts, *topics: str, **fields: Any) -> str:
        """Create a classic group with one member that has those partitions; returns the member id."""
        member = self.classic_join("", *topics, **fields).member_id
        generation = self.classic_join(member, *topics, **fields).generation_id
        self.classic_sync(member, generation, {member: assignment_of(plan)})
        return member

    # State

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.context.groups[GROUP]
        if not isinstance(group, ConsumerGroup):
            raise TypeError(f"{group} is not a consumer group")
        return group

    def member(self, name: str) -> ConsumerMember:
        return self.group.members[name]

    def held(self) -> dict[str, Parts]:
        """The assigned partitions of each member."""
        return {name: self.named(member.assigned) for name, member in self.group.members.items()}

    def written(self) -> list[LogRecord]:
        """The records appended since the last call."""
        since, self._seen = getattr(self, "_seen", 0), len(self.log)
        return self.values()[since:]


def subscription_of(topics: Iterable[str], owned: Parts, user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[
            TopicPartition(topic=name, partitions=list(partitions)) for name, partitions in owned.items()
        ],
    )
    return PROTOCOL_VERSION.to_bytes(2) + codec.encode(message, PROTOCOL_VERSION)


def assignment_of(parts: Parts, user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=list(partitions))
            for name, partitions in parts.items()
        ],
        user_data=user_data,
    )
    return PROTOCOL_VERSION.to_bytes(2) + codec.encode(message, PROTOCOL_VERSION)


def parts_of(assignment: bytes) -> Parts:
    message = codec.decode(ConsumerProtocolAssignment, assignment, PROTOCOL_VERSION, start=2)
    return {each.topic: tuple(each.partitions) for each in message.assigned_partitions}
