"""The APIs of groups and offsets on a socket: where an error stands in each version, and what outlives a crash.

Run with `--on-kafka` these hold for Apache Kafka too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.schema import Message
from tests.conftest import MakeBroker
from tests.support.clients import create_topic
from tests.support.raw import Address, RawClient
from tests.support.waiting import wait_until

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
STARTING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
GROUP = "group"


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory, peer: MakeBroker) -> Iterator[RawClient]:
    """A broker that has received no FindCoordinator request, so that it has no coordinator."""
    with peer(tmp_path_factory.mktemp("lonely") / "data") as process:
        create_topic(process.bootstrap, "t")
        with RawClient(Address.parse(process.bootstrap)) as client:
            yield client


def _join() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )


def _commit(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def _fetch(group: str, topic: str) -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    return OffsetFetchRequest(group_id=group, topics=asked)


def _fetch_of_groups() -> OffsetFetchRequest:
    asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=asked)])


Place = Callable[[Any], int]
WITHOUT_COORDINATOR: list[tuple[Message, type[Message], int, Place]] = [
    (_commit(GROUP, "t", 1), OffsetCommitResponse, 2, lambda it: it.topics[0].partitions[0].error_code),
    (_commit(GROUP, "t", 1), OffsetCommitResponse, 9, lambda it: it.topics[0].partitions[0].error_code),
    (_fetch(GROUP, "t"), OffsetFetchResponse, 1, lambda it: it.topics[0].partitions[0].error_code),
    (_fetch(GROUP, "t"), OffsetFetchResponse, 2, lambda it: it.error_code),
    (_fetch(GROUP, "t"), OffsetFetchResponse, 7, lambda it: it.error_code),
    (_fetch_of_groups(), OffsetFetchResponse, 8, lambda it: it.groups[0].error_code),
    (OffsetDeleteRequest(group_id=GROUP), OffsetDeleteResponse, 0, lambda it: it.error_code),
    (_join(), JoinGroupResponse, 0, lambda it: it.error_code),
    (_join(), JoinGroupResponse, 9, lambda it: it.error_code),
    (SyncGroupRequest(group_id=GROUP), SyncGroupResponse, 4, lambda it: it.error_code),
    (HeartbeatRequest(group_id=GROUP), HeartbeatResponse, 4, lambda it: it.error_code),
    (LeaveGroupRequest(group_id=GROUP), LeaveGroupResponse, 5, lambda it: it.error_code),
    (DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse, 6, lambda it: it.groups[0].error_code),
    (DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse, 2, lambda it: it.results[0].error_code),
    (
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1),
        ConsumerGroupHeartbeatResponse,
        1,
        lambda it: it.error_code,
    ),
    (
        ConsumerGroupDescribeRequest(group_ids=[GROUP]),
        ConsumerGroupDescribeResponse,
        1,
        lambda it: it.groups[0].error_code,
    ),
]


@pytest.mark.parametrize(
    ("request_", "response", "version", "place"),
    WITHOUT_COORDINATOR,
    ids=[f"{type(row[0]).__name__}-v{row[2]}" for row in WITHOUT_COORDINATOR],
)
def test_a_broker_that_does_not_coordinate_returns_an_error(
    lonely: RawClient, request_: Message, response: type[Message], version: int, place: Place
) -> None:
    assert place(lonely.ask(request_, version, response)) == NOT_COORDINATOR


def test_who_coordinates_nothing_lists_nothing(lonely: RawClient) -> None:
    answer: Any = lonely.ask(ListGroupsRequest(), 5, ListGroupsResponse)
    assert (answer.error_code, answer.groups) == (ErrorCode.NONE, [])


class _Offsets:
    """A client that commits and asks."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def ready(self, group: str) -> None:
        """Until the group is coordinated."""
        asked = FindCoordinatorRequest(key=group)

        def coordinated() -> bool:
            found: Any = self._client.ask(asked, 3, FindCoordinatorResponse)
            answer: Any = self._client.ask(_fetch(group, "t"), 7, OffsetFetchResponse)
            return not found.error_code and answer.error_code not in STARTING

        wait_until(coordinated, f"a coordinator of {group}")

    def commit(self, group: str, topic: str, offset: int) -> int:
        answer: Any = self._client.ask(_commit(group, topic, offset), 9, OffsetCommitResponse)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def committed(self, group: str, topic: str) -> int:
        answer: Any = self._client.ask(_fetch(group, topic), 7, OffsetFetchResponse)
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


@contextmanager
def _offsets(broker: BrokerProcess, group: str) -> Iterator[_Offsets]:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        offsets = _Offsets(client)
        offsets.ready(group)
        yield offsets


def test_a_committed_offset_outlives_a_crash(make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "t")
    with _offsets(broker, GROUP) as client:
        for offset in (5, 9, 7):
            assert client.commit(GROUP, "t", offset) == ErrorCode.NONE
    broker.kill()
    broker.start()
    with _offsets(broker, GROUP) as client:
        assert client.committed(GROUP, "t") == 7


def test_a_new_topic_begins_without_the_offsets_of_its_namesake(broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, "namesake")
    with _offsets(broker, "namesakes") as client:
        assert client.commit("namesakes", topic, 5) == ErrorCode.NONE
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: client.committed("namesakes", topic) == -1, "the end of its offsets")
        create_topic(broker.bootstrap, topic)
        assert client.committed("namesakes", topic) == -1
