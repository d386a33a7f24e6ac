"""Requests that the fuzzer has found to fail, or to need much memory or time: each of them is a test here.

The cluster runs in this process (`fuzz.frames.target`): nodes of the simulation, with real handlers.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from types import ModuleType

import pytest

from fuzz.frames.target import Stage, Target
from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.ids import METADATA_TOPIC, ZERO_UUID, Uuid
from ottla.broker.net.listeners import ListenerType
from ottla.broker.repetitions import REPETITIONS_MAX
from ottla.wire import codec
from ottla.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch_snapshot, vote
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.schema import Message

CONNECTIONS = 200


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    made = Target(brokers=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Target]:
    made = Target(brokers=3)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_failures(target: Target) -> Iterator[None]:
    yield
    assert target.failures == []


def test_repeated_groups_are_described_a_few_times(target: Target) -> None:
    """Each repetition of a few bytes would add all members of the group to the response."""
    request = DescribeGroupsRequest(groups=["b", *["a"] * 1000])
    response = target.exchange(request, 6, DescribeGroupsResponse)
    assert [group.group_id for group in response.groups] == ["b", *["a"] * REPETITIONS_MAX]


def test_repeated_consumer_groups_are_described_a_few_times(target: Target) -> None:
    request = ConsumerGroupDescribeRequest(group_ids=["b", *["a"] * 1000])
    response = target.exchange(request, 1, ConsumerGroupDescribeResponse)
    assert [group.group_id for group in response.groups] == ["b", *["a"] * REPETITIONS_MAX]


def test_repeated_transactional_ids_are_described_a_few_times(target: Target) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["b", *["a"] * 1000])
    response = target.exchange(request, 0, DescribeTransactionsResponse)
    assert [state.transactional_id for state in response.transaction_states] == [
        "b",
        *["a"] * REPETITIONS_MAX,
    ]


def test_producers_of_a_repeated_partition_are_described_a_few_times(target: Target) -> None:
    """Each repetition of four bytes would add all producers of the partition to the response."""
    topics = [
        TopicRequest(name="fuzz", partition_indexes=[1, *[0] * 1000]),
        TopicRequest(name="fuzz", partition_indexes=[1]),
    ]
    response = target.exchange(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)
    found = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]
    assert found == [("fuzz", [1, *[0] * REPETITIONS_MAX]), ("fuzz", [1])]


def test_all_offsets_of_a_repeated_group_are_returned_a_few_times(target: Target) -> None:
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ["b", *["a"] * 1000]]
    response = target.exchange(OffsetFetchRequest(groups=groups), 8, OffsetFetchResponse)
    assert [group.group_id for group in response.groups] == ["b", *["a"] * REPETITIONS_MAX]
    assert {group.error_code for group in response.groups} == {ErrorCode.NONE}


@pytest.mark.parametrize("stage", [None, Stage.NEW, Stage.PLAIN, Stage.SCRAM_256])
@pytest.mark.parametrize(
    "received", [b"", b"\0\x07\xff\xff" + bytes(10), b"\0\x07\xff\xff" + bytes(4000)], ids=len
)
def test_memory_of_connections_before_authentication(
    target: Target, stage: Stage | None, received: bytes
) -> None:
    """A connection without a complete frame needs at most 64 KiB, and 4 bytes for each byte received."""
    has_sasl = stage is not None
    endpoint = next(each for each in target.endpoints if each.protocol.uses_sasl is has_sasl)
    tracemalloc.start()
    try:
        sockets = [target.open(endpoint) for _ in range(CONNECTIONS)]
        target.turn()
        if stage is not None:
            target.authenticate(sockets, stage)
        for socket in sockets:
            socket.deliver(received)
        target.turn()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not any(socket.closed for socket in sockets)
    assert size / CONNECTIONS < (64 << 10) + 4 * len(received)
    for socket in sockets:
        socket.hang_up()
    target.turn()
    assert all(socket.closed for socket in sockets)


@pytest.mark.parametrize("instance_id", [None, "\u20ac" * 10922])
def test_a_member_of_a_client_with_a_long_id_gets_a_response(target: Target, instance_id: str | None) -> None:
    """A member id begins with the client id or the instance id, and has at most 32,767 bytes."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=f"long {instance_id is None}",
        group_instance_id=instance_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    response = target.exchange(request, 5, JoinGroupResponse, client_id="\u20ac" * 10922)
    assert response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
    assert response.member_id.startswith("\u20ac" * 255 + "-")


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_gets_a_response_on_the_controller_listener(
    cluster: Target, version: int
) -> None:
    """Old versions have no field for the leader of the quorum: the response could not be encoded."""
    partition = FetchPartition(partition=0, current_leader_epoch=7)
    topic = FetchTopic(topic="__cluster_metadata", topic_id=Uuid(int=1), partitions=[partition])
    if version < 13:
        topic.topic_id = ZERO_UUID
    else:
        topic.topic = ""
    controller = next(each for each in cluster.endpoints if each.type is ListenerType.CONTROLLER)
    request = FetchRequest(topics=[topic], max_wait_ms=0)
    response = cluster.exchange(request, version, FetchResponse, controller)
    if (
        version < 13
    ):  # without topic ids no topic is the metadata log; before version 7 there is no field for the error
        assert response.responses == []
        assert response.error_code == (ErrorCode.INVALID_REQUEST if version >= 7 else ErrorCode.NONE)
    else:
        assert response.responses[0].partitions[0].error_code != ErrorCode.NONE
    assert cluster.failures == []


BEGUN = begin_quorum_epoch.PartitionData(leader_id=99, leader_epoch=0)
ENDED = end_quorum_epoch.PartitionData(leader_id=99, leader_epoch=0)
QUORUM_REQUESTS = [
    (vote, "Vote", vote.TopicData(partitions=[vote.PartitionData(replica_id=99, replica_epoch=1)])),
    (begin_quorum_epoch, "BeginQuorumEpoch", begin_quorum_epoch.TopicData(partitions=[BEGUN])),
    (end_quorum_epoch, "EndQuorumEpoch", end_quorum_epoch.TopicData(partitions=[ENDED])),
    (
        fetch_snapshot,
        "FetchSnapshot",
        fetch_snapshot.TopicSnapshot(partitions=[fetch_snapshot.PartitionSnapshot()]),
    ),
]


@pytest.mark.parametrize(
    ("messages", "name", "topic"), QUORUM_REQUESTS, ids=[each[1] for each in QUORUM_REQUESTS]
)
@pytest.mark.parametrize("version", [0, 1])
def test_every_version_of_requests_of_the_quorum_gets_a_response(
    cluster: Target, messages: ModuleType, name: str, topic: Message, version: int
) -> None:
    """The first version has no field for the address of the leader."""
    setattr(topic, "name" if name == "FetchSnapshot" else "topic_name", METADATA_TOPIC)
    request = getattr(messages, f"{name}Request")(topics=[topic])
    controller = next(each for each in cluster.endpoints if each.type is ListenerType.CONTROLLER)
    response = cluster.exchange(request, version, getattr(messages, f"{name}Response"), controller)
    assert response is not None
    assert cluster.failures == []


@pytest.mark.parametrize("messages", [begin_quorum_epoch, end_quorum_epoch], ids=["begin", "end"])
def test_a_node_survives_a_request_that_names_another_leader_of_the_quorum(
    cluster: Target, messages: ModuleType
) -> None:
    """Seed 7 of the fuzzer: a request to each node names another leader of the current epoch."""
    name = "BeginQuorumEpoch" if messages is begin_quorum_epoch else "EndQuorumEpoch"
    voted = vote.TopicData(topic_name=METADATA_TOPIC, partitions=[vote.PartitionData(replica_id=99)])
    controllers = [each for each in cluster.endpoints if each.type is ListenerType.CONTROLLER]
    for controller in controllers:
        known = cluster.exchange(vote.VoteRequest(topics=[voted]), 0, vote.VoteResponse, controller)
        current = known.topics[0].partitions[0]
        named = messages.PartitionData(
            leader_id=(current.leader_id + 1) % 3, leader_epoch=current.leader_epoch
        )
        topic = messages.TopicData(topic_name=METADATA_TOPIC, partitions=[named])
        request = getattr(messages, f"{name}Request")(topics=[topic])
        response = cluster.exchange(request, 0, getattr(messages, f"{name}Response"), controller)
        assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert len(controllers) == 3
    assert cluster.failures == []


def test_the_memory_of_a_large_request_is_limited() -> None:
    """Handlers need many times the memory of a request: 100 MiB of names would become gigabytes."""
    names = [f"a group with a name of forty characters {number:07}" for number in range(160_000)]
    raw = codec.encode(DescribeGroupsRequest(groups=names), 5)
    with pytest.raises(RemoteProtocolError, match="memory budget"):
        codec.decode(DescribeGroupsRequest, raw, 5)
    accepted = codec.encode(DescribeGroupsRequest(groups=names[:100_000]), 5)
    assert len(codec.decode(DescribeGroupsRequest, accepted, 5).groups) == 100_000
