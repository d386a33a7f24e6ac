"""Requests and responses of the quorum as Kafka's messages: each field in its place, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode, RemoteProtocolError
from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft import messages as raft
from ottla.quorum.raft.voters import ReplicaKey, Voter
from ottla.quorum.runtime.translation import (
    FETCH_BYTES_MAX,
    LeaderAddress,
    WireRequest,
    address_of,
    decode_request,
    decode_response,
    encode_error,
    encode_request,
    encode_response,
    request_leader,
    response_leader,
)
from ottla.wire import codec
from ottla.wire.messages import (
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from ottla.wire.schema import Message

CLUSTER = "c" * 22
SENDER = ReplicaKey(1, uuid.UUID(int=11))
RECEIVER = ReplicaKey(2, uuid.UUID(int=22))
END = raft.OffsetAndEpoch(70, 6)
VOTE = raft.Vote(SENDER, RECEIVER, 7, END, True)
BEGIN = raft.BeginEpoch(1, RECEIVER, 7)
END_EPOCH = raft.EndEpoch(1, 7, (RECEIVER, ReplicaKey(3, uuid.UUID(int=33))))
FETCH = raft.Fetch(SENDER, 7, 70, 6, 65, 500)
FETCH_SNAPSHOT = raft.FetchSnapshot(SENDER, 7, raft.OffsetAndEpoch(60, 5), 4096)
REQUESTS: list[raft.Request] = [VOTE, BEGIN, END_EPOCH, FETCH, FETCH_SNAPSHOT]
WIRE_REQUESTS: list[tuple[raft.Request, WireRequest]] = [
    (
        VOTE,
        WireRequest(
            vote.VoteRequest(
                cluster_id=CLUSTER,
                voter_id=2,
                topics=[
                    vote.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            vote.PartitionData(
                                partition_index=0,
                                replica_epoch=7,
                                replica_id=1,
                                replica_directory_id=SENDER.directory_id,
                                voter_directory_id=RECEIVER.directory_id,
                                last_offset_epoch=6,
                                last_offset=70,
                                pre_vote=True,
                            )
                        ],
                    )
                ],
            ),
            vote.VoteResponse,
            range(2, 3),
        ),
    ),
    (
        BEGIN,
        WireRequest(
            begin_quorum_epoch.BeginQuorumEpochRequest(
                cluster_id=CLUSTER,
                voter_id=2,
                topics=[
                    begin_quorum_epoch.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            begin_quorum_epoch.PartitionData(
                                partition_index=0,
                                voter_directory_id=RECEIVER.directory_id,
                                leader_id=1,
                                leader_epoch=7,
                            )
                        ],
                    )
                ],
            ),
            begin_quorum_epoch.BeginQuorumEpochResponse,
            range(1, 2),
        ),
    ),
    (
        END_EPOCH,
        WireRequest(
            end_quorum_epoch.EndQuorumEpochRequest(
                cluster_id=CLUSTER,
                topics=[
                    end_quorum_epoch.TopicData(
                        topic_name=METADATA_TOPIC,
                        partitions=[
                            end_quorum_epoch.PartitionData(
                                partition_index=0,
                                leader_id=1,
                                leader_epoch=7,
                                preferred_candidates=[
                                    end_quorum_epoch.ReplicaInfo(
                                        candidate_id=key.node_id, candidate_directory_id=key.directory_id
                                    )
                                    for key in END_EPOCH.successors
                                ],
                            )
                        ],
                    )
                ],
            ),
            end_quorum_epoch.EndQuorumEpochResponse,
            range(1, 2),
        ),
    ),
    (
        FETCH,
        WireRequest(
            fetch.FetchRequest(
                cluster_id=CLUSTER,
                replica_state=fetch.ReplicaState(replica_id=1),
                max_wait_ms=500,
                max_bytes=8 * 1024 * 1024,
                topics=[
                    fetch.FetchTopic(
                        topic=METADATA_TOPIC,
                        topic_id=METADATA_TOPIC_ID,
                        partitions=[
                            fetch.FetchPartition(
                                partition=0,
                                current_leader_epoch=7,
                                fetch_offset=70,
                                last_fetched_epoch=6,
                                partition_max_bytes=8 * 1024 * 1024,
                                replica_directory_id=SENDER.directory_id,
                                high_watermark=65,
                            )
                        ],
                    )
                ],
            ),
            fetch.FetchResponse,
            range(17, 19),
        ),
    ),
    (
        FETCH_SNAPSHOT,
        WireRequest(
            fetch_snapshot.FetchSnapshotRequest(
                cluster_id=CLUSTER,
                replica_id=1,
                max_bytes=FETCH_BYTES_MAX,
                topics=[
                    fetch_snapshot.TopicSnapshot(
                        name=METADATA_TOPIC,
                        partitions=[
                            fetch_snapshot.PartitionSnapshot(
                                partition=0,
                                current_leader_epoch=7,
                                snapshot_id=fetch_snapshot.SnapshotId(end_offset=60, epoch=5),
                                position=4096,
                                replica_directory_id=SENDER.directory_id,
                            )
                        ],
                    )
                ],
            ),
            fetch_snapshot.FetchSnapshotResponse,
            range(1, 2),
        ),
    ),
]
FENCED = ErrorCode.FENCED_LEADER_EPOCH
RESPONSES: list[raft.Response] = [
    raft.VoteResponse(ErrorCode.NONE, 7, -1, True),
    raft.VoteResponse(FENCED, 8, 2, False),
    raft.BeginEpochResponse(FENCED, 8, 2),
    raft.EndEpochResponse(FENCED, 8, 2),
    raft.FetchResponse(ErrorCode.NONE, 7, 2, 65, b"batches"),
    raft.FetchResponse(FENCED, 8, 2),
    raft.FetchResponse(ErrorCode.NONE, 7, 2, 65, diverging=raft.OffsetAndEpoch(40, 3)),
    raft.FetchResponse(ErrorCode.NONE, 7, 2, 65, diverging=raft.OffsetAndEpoch(40, 0)),
    raft.FetchResponse(ErrorCode.NONE, 7, 2, 65, snapshot=raft.OffsetAndEpoch(60, 5)),
    raft.FetchResponse(ErrorCode.NONE, 7, 2, 65, snapshot=raft.OffsetAndEpoch(60, 0)),
    raft.FetchSnapshotResponse(ErrorCode.NONE, 7, 2, raft.OffsetAndEpoch(60, 5), 9000, 4096, b"part"),
    raft.FetchSnapshotResponse(ErrorCode.POSITION_OUT_OF_RANGE, 8, 2, raft.OffsetAndEpoch(60, 5)),
]
RESPONSE_VERSIONS: dict[type[Message], int] = {
    vote.VoteResponse: 2,
    begin_quorum_epoch.BeginQuorumEpochResponse: 1,
    end_quorum_epoch.EndQuorumEpochResponse: 1,
    fetch.FetchResponse: 18,
    fetch_snapshot.FetchSnapshotResponse: 1,
}


def name(value: object) -> str:
    return type(value).__name__


def sent(message: Message, version: int) -> Message:
    """The message as its receiver decodes it."""
    return codec.decode(type(message), memoryview(codec.encode(message, version)), version)


def message_of(request: raft.Request) -> Any:
    return encode_request(request, CLUSTER).message


@pytest.mark.parametrize(("request_", "wire"), WIRE_REQUESTS, ids=map(name, REQUESTS))
def test_a_request_is_encoded_with_each_field_in_its_place(request_: raft.Request, wire: WireRequest) -> None:
    assert encode_request(request_, CLUSTER) == wire


@pytest.mark.parametrize("request_", REQUESTS, ids=name)
def test_a_request_arrives_as_it_was_sent(request_: raft.Request) -> None:
    wire = encode_request(request_, CLUSTER)
    assert decode_request(sent(wire.message, wire.versions[-1]), CLUSTER) == request_


@pytest.mark.parametrize("request_", REQUESTS, ids=name)
def test_a_request_of_another_cluster_is_refused(request_: raft.Request) -> None:
    with pytest.raises(ApiError) as refused:
        decode_request(encode_request(request_, "d" * 22).message, CLUSTER)
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_request_without_a_cluster_id_is_accepted() -> None:
    message = message_of(VOTE)
    message.cluster_id = None
    assert decode_request(message, CLUSTER) == VOTE


@pytest.mark.parametrize("request_", REQUESTS, ids=name)
def test_a_request_has_exactly_one_partition(request_: raft.Request) -> None:
    absent, empty, twice, two_topics = (message_of(request_) for _ in range(4))
    absent.topics = []
    empty.topics[0].partitions = []
    twice.topics[0].partitions *= 2
    two_topics.topics *= 2
    for message in (absent, empty, twice, two_topics):
        with pytest.raises(ApiError) as refused:
            decode_request(message, CLUSTER)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END_EPOCH], ids=name)
def test_a_request_for_another_topic_or_partition_is_refused(request_: raft.Request) -> None:
    other_topic, other_partition = message_of(request_), message_of(request_)
    other_topic.topics[0].topic_name = "orders"
    other_partition.topics[0].partitions[0].partition_index = 1
    for message in (other_topic, other_partition):
        with pytest.raises(ApiError) as refused:
            decode_request(message, CLUSTER)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_fetch_of_another_topic_or_partition_is_refused() -> None:
    other_topic, other_partition = message_of(FETCH), message_of(FETCH)
    other_topic.topics[0].topic = "orders"
    other_topic.topics[0].topic_id = uuid.UUID(int=9)
    other_partition.topics[0].partitions[0].partition = 1
    other_name, other_index = message_of(FETCH_SNAPSHOT), message_of(FETCH_SNAPSHOT)
    other_name.topics[0].name = "orders"
    other_index.topics[0].partitions[0].partition = 1
    for message in (other_topic, other_partition, other_name, other_index):
        with pytest.raises(ApiError) as refused:
            decode_request(message, CLUSTER)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_fetch_names_the_topic_by_its_id() -> None:
    by_name, by_id = message_of(FETCH), message_of(FETCH)
    by_name.topics[0].topic_id = uuid.UUID(int=0)
    by_id.topics[0].topic = ""
    assert decode_request(by_id, CLUSTER) == FETCH
    with pytest.raises(ApiError) as refused:
        decode_request(by_name, CLUSTER)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_the_end_of_an_epoch_in_version_0_names_successors_without_directories() -> None:
    message = message_of(END_EPOCH)
    partition = message.topics[0].partitions[0]
    partition.preferred_candidates, partition.preferred_successors = [], [3, 2]
    assert decode_request(message, CLUSTER) == raft.EndEpoch(1, 7, (ReplicaKey(3), ReplicaKey(2)))


def test_a_fetch_of_an_earlier_version_names_its_replica_in_another_field() -> None:
    message = message_of(FETCH)
    message.replica_state, message.replica_id = fetch.ReplicaState(), 1
    assert decode_request(message, CLUSTER) == FETCH


def test_a_message_that_is_no_request_of_the_quorum_is_refused() -> None:
    class Other(vote.VoteResponse):
        cluster_id: str = CLUSTER

    with pytest.raises(ApiError) as refused:
        decode_request(Other(topics=message_of(VOTE).topics), CLUSTER)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("request_", REQUESTS, ids=name)
def test_an_error_is_in_the_response_to_the_request(request_: raft.Request) -> None:
    wire = encode_request(request_, CLUSTER)
    response = encode_error(wire.message, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert type(response) is wire.response
    with pytest.raises(ApiError) as refused:
        decode_response(sent(response, wire.versions[-1]))
    assert refused.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("response", RESPONSES, ids=name)
def test_a_response_arrives_as_it_was_sent(response: raft.Response) -> None:
    message = encode_response(response, 3)
    assert decode_response(sent(message, RESPONSE_VERSIONS[type(message)])) == response


@pytest.mark.parametrize("response", RESPONSES, ids=name)
def test_a_response_names_the_metadata_log(response: raft.Response) -> None:
    message: Any = encode_response(response, 3)
    (topic,) = message.responses if isinstance(message, fetch.FetchResponse) else message.topics
    assert METADATA_TOPIC in (getattr(topic, field, None) for field in ("topic_name", "name", "topic"))
    assert getattr(topic, "topic_id", METADATA_TOPIC_ID) == METADATA_TOPIC_ID


def test_a_response_to_a_fetch_has_each_field_in_its_place() -> None:
    response = raft.FetchResponse(
        FENCED, 7, 2, 65, b"batches", raft.OffsetAndEpoch(40, 3), raft.OffsetAndEpoch(60, 5)
    )
    message = encode_response(response, 3)
    assert isinstance(message, fetch.FetchResponse)
    assert message.responses[0].partitions == [
        fetch.PartitionData(
            error_code=FENCED,
            high_watermark=65,
            log_start_offset=3,
            diverging_epoch=fetch.EpochEndOffset(epoch=3, end_offset=40),
            current_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
            snapshot_id=fetch.SnapshotId(end_offset=60, epoch=5),
            records=b"batches",
        )
    ]


def test_a_response_with_a_part_of_a_snapshot_has_each_field_in_its_place() -> None:
    response = raft.FetchSnapshotResponse(
        FENCED, 7, 2, raft.OffsetAndEpoch(60, 5), size=9000, position=4096, data=b"part"
    )
    message = encode_response(response, 3)
    assert isinstance(message, fetch_snapshot.FetchSnapshotResponse)
    assert message.topics[0].partitions == [
        fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
            error_code=FENCED,
            snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(end_offset=60, epoch=5),
            current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
            size=9000,
            position=4096,
            unaligned_records=b"part",
        )
    ]


def test_a_response_of_an_election_has_each_field_in_its_place() -> None:
    for response in (
        raft.VoteResponse(FENCED, 7, 2, True),
        raft.BeginEpochResponse(FENCED, 7, 2),
        raft.EndEpochResponse(FENCED, 7, 2),
    ):
        message: Any = encode_response(response, 3)
        (partition,) = message.topics[0].partitions
        assert (partition.error_code, partition.leader_epoch, partition.leader_id) == (FENCED, 7, 2)
        assert getattr(partition, "vote_granted", True)


def test_an_error_without_a_snapshot_is_encoded() -> None:
    message = encode_response(raft.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, 7, 2), 3)
    assert decode_response(message).error is ErrorCode.SNAPSHOT_NOT_FOUND


def test_the_records_of_a_response_are_bytes_of_their_own() -> None:
    """A decoded message refers to the buffer of the connection, which is used again."""
    fetched: Any = encode_response(raft.FetchResponse(ErrorCode.NONE, 7, 2, 65), 3)
    part: Any = encode_response(
        raft.FetchSnapshotResponse(ErrorCode.NONE, 7, 2, raft.OffsetAndEpoch(60, 5)), 3
    )
    for received, expected in ((memoryview(b"bytes"), b"bytes"), (None, b"")):
        fetched.responses[0].partitions[0].records = received
        part.topics[0].partitions[0].unaligned_records = received
        response, snapshot = decode_response(fetched), decode_response(part)
        assert isinstance(response, raft.FetchResponse)
        assert isinstance(snapshot, raft.FetchSnapshotResponse)
        for found in (response.records, snapshot.data):
            assert isinstance(found, bytes)
            assert found == expected


@pytest.mark.parametrize("response", RESPONSES, ids=name)
def test_a_response_has_exactly_one_partition(response: raft.Response) -> None:
    field = "responses" if isinstance(response, raft.FetchResponse) else "topics"
    absent, empty, twice, two_topics = (encode_response(response, 3) for _ in range(4))
    setattr(absent, field, [])
    getattr(empty, field)[0].partitions = []
    getattr(twice, field)[0].partitions *= 2
    setattr(two_topics, field, getattr(two_topics, field) * 2)
    for message in (absent, empty, twice, two_topics):
        with pytest.raises(RemoteProtocolError, match="exactly one partition"):
            decode_response(message)


def test_a_message_that_is_no_response_of_the_quorum_is_refused() -> None:
    class Other(api_versions.ApiVersionsResponse):
        topics: list[vote.VoteResponseTopicData] = []

    granted: Any = encode_response(raft.VoteResponse(ErrorCode.NONE, 7, -1, True), 3)
    with pytest.raises(RemoteProtocolError, match="not a response of the quorum"):
        decode_response(Other(topics=granted.topics))


@pytest.mark.parametrize("response", RESPONSES)
def test_a_response_names_the_address_of_its_leader(response: raft.Response) -> None:
    leader = LeaderAddress(response.leader_id, "host", 9093)
    message = encode_response(response, 0, leader)
    version = type(message).SPEC.versions[-1]
    arrived = codec.decode(type(message), codec.encode(message, version), version)
    assert response_leader(arrived) == leader
    assert decode_response(arrived) == decode_response(encode_response(response, 0))
    assert response_leader(encode_response(response, 0, leader._replace(node_id=77))) is None
    assert response_leader(encode_response(response, 0)) is None


def test_a_leader_sends_its_addresses() -> None:
    listeners = [ListenerAddress("OTHER", "x", 1), ListenerAddress("CONTROLLER", "host", 9093)]
    begin = encode_request(BEGIN, CLUSTER, listeners).message
    assert request_leader(begin, "controller") == LeaderAddress(1, "host", 9093)
    assert request_leader(begin, "absent") is None
    assert request_leader(encode_request(VOTE, CLUSTER, listeners).message, "CONTROLLER") is None
    end: Any = encode_request(END_EPOCH, CLUSTER, listeners).message
    assert [(at.name, at.host, at.port) for at in end.leader_endpoints] == listeners


def test_the_address_of_a_voter_is_that_of_the_listener() -> None:
    voter = Voter(SENDER, (ListenerAddress("OTHER", "x", 1), ListenerAddress("CONTROLLER", "host", 9093)))
    assert address_of(voter, "controller") == LeaderAddress(1, "host", 9093)
    assert address_of(voter, "absent") is None
    assert address_of(None, "CONTROLLER") is None
