"""The core's requests and responses as Kafka's messages: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot.

Each message carries exactly one partition, that of the metadata log. A request that names another cluster is refused
with INCONSISTENT_CLUSTER_ID, and one without exactly that partition with INVALID_REQUEST, in the message's top-level
error; such a response never reaches the core.

Messages also carry the address of the leader, because a node may not know it: its log may name other voters, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode, RemoteProtocolError
from ottla.base.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft import messages as raft
from ottla.quorum.raft.voters import ReplicaKey, Voter
from ottla.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from ottla.wire.schema import Message

FETCH_BYTES_MAX: Final = 8 << 20
_ENDPOINTS: Final[Mapping[type[Message], Callable[..., Message]]] = {
    vote.VoteResponse: vote.NodeEndpoint,
    begin_quorum_epoch.BeginQuorumEpochResponse: begin_quorum_epoch.NodeEndpoint,
    end_quorum_epoch.EndQuorumEpochResponse: end_quorum_epoch.NodeEndpoint,
    fetch.FetchResponse: fetch.NodeEndpoint,
    fetch_snapshot.FetchSnapshotResponse: fetch_snapshot.NodeEndpoint,
}


class WireRequest(NamedTuple):
    """A request as it is sent: the message, the class of its response and the versions that may be used."""

    message: Message
    response: type[Message]
    versions: range


class LeaderAddress(NamedTuple):
    """Where the leader that a message names can be reached."""

    node_id: int
    host: str
    port: int


def address_of(voter: Voter | None, listener: str) -> LeaderAddress | None:
    """The address of a voter at its listener with this name."""
    for at in () if voter is None else voter.listeners:
        if voter is not None and at.name.upper() == listener.upper():
            return LeaderAddress(voter.key.node_id, at.host, at.port)
    return None


def encode_request(
    request: raft.Request, cluster_id: str, listeners: Sequence[ListenerAddress] = ()
) -> WireRequest:
    """The message of a request; `listeners` are the addresses of this node, for requests of a leader."""
    match request:
        case raft.Vote():
            return WireRequest(_vote(request, cluster_id), vote.VoteResponse, range(2, 3))
        case raft.BeginEpoch():
            message = _begin_epoch(request, cluster_id, listeners)
            return WireRequest(message, begin_quorum_epoch.BeginQuorumEpochResponse, range(1, 2))
        case raft.EndEpoch():
            message = _end_epoch(request, cluster_id, listeners)
            return WireRequest(message, end_quorum_epoch.EndQuorumEpochResponse, range(1, 2))
        case raft.Fetch():
            return WireRequest(_fetch(request, cluster_id), fetch.FetchResponse, range(17, 19))
        case raft.FetchSnapshot():
            message = _fetch_snapshot(request, cluster_id)
            return WireRequest(message, fetch_snapshot.FetchSnapshotResponse, range(1, 2))


def _vote(request: raft.Vote, cluster_id: str) -> Message:
    partition = vote.PartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    topics = [vote.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=request.voter.node_id, topics=topics)


def _begin_epoch(request: raft.BeginEpoch, cluster_id: str, listeners: Sequence[ListenerAddress]) -> Message:
    partition = begin_quorum_epoch.PartitionData(
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topics = [begin_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=request.voter.node_id,
        topics=topics,
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=at.name, host=at.host, port=at.port) for at in listeners
        ],
    )


def _end_epoch(request: raft.EndEpoch, cluster_id: str, listeners: Sequence[ListenerAddress]) -> Message:
    partition = end_quorum_epoch.PartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    topics = [end_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    endpoints = [
        end_quorum_epoch.LeaderEndpoint(name=at.name, host=at.host, port=at.port) for at in listeners
    ]
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id, topics=topics, leader_endpoints=endpoints
    )


def _fetch(request: raft.Fetch, cluster_id: str) -> Message:
    partition = fetch.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=FETCH_BYTES_MAX,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot(request: raft.FetchSnapshot, cluster_id: str) -> Message:
    snapshot_id = fetch_snapshot.SnapshotId(end_offset=request.snapshot.offset, epoch=request.snapshot.epoch)
    partition = fetch_snapshot.PartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot_id,
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topics = [fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])]
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=request.replica.node_id, max_bytes=FETCH_BYTES_MAX, topics=topics
    )


def decode_request(message: Message, cluster_id: str) -> raft.Request:
    """The request that another replica sent; ApiError for the top-level error of its response."""
    found: Any = message
    if found.cluster_id not in (None, cluster_id):
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    topics = found.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or not _is_metadata_log(topics[0]):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    partition = topics[0].partitions[0]
    match message:
        case vote.VoteRequest():
            return raft.Vote(
                ReplicaKey(partition.replica_id, partition.replica_directory_id),
                ReplicaKey(message.voter_id, partition.voter_directory_id),
                partition.replica_epoch,
                raft.OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
                partition.pre_vote,
            )
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            voter = ReplicaKey(message.voter_id, partition.voter_directory_id)
            return raft.BeginEpoch(partition.leader_id, voter, partition.leader_epoch)
        case end_quorum_epoch.EndQuorumEpochRequest():
            successors = [
                ReplicaKey(one.candidate_id, one.candidate_directory_id)
                for one in partition.preferred_candidates
            ] or [ReplicaKey(node_id) for node_id in partition.preferred_successors]
            return raft.EndEpoch(partition.leader_id, partition.leader_epoch, tuple(successors))
        case fetch.FetchRequest():
            replica_id = max(message.replica_state.replica_id, message.replica_id)
            return raft.Fetch(
                ReplicaKey(replica_id, partition.replica_directory_id),
                partition.current_leader_epoch,
                partition.fetch_offset,
                partition.last_fetched_epoch,
                partition.high_watermark,
                message.max_wait_ms,
            )
        case fetch_snapshot.FetchSnapshotRequest():
            return raft.FetchSnapshot(
                ReplicaKey(message.replica_id, partition.replica_directory_id),
                partition.current_leader_epoch,
                raft.OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
                partition.position,
            )
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST)


def _is_metadata_log(topic: Any) -> bool:
    partition = topic.partitions[0]
    index = getattr(partition, "partition_index", getattr(partition, "partition", 0))
    if isinstance(topic, fetch.FetchTopic):
        return index == 0 and topic.topic_id == METADATA_TOPIC_ID
    return index == 0 and getattr(topic, "topic_name", getattr(topic, "name", "")) == METADATA_TOPIC


def encode_error(message: Message, error: ErrorCode) -> Message:
    """The response to a request that `decode_request` refused."""
    match message:
        case vote.VoteRequest():
            return vote.VoteResponse(error_code=error)
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=error)
        case end_quorum_epoch.EndQuorumEpochRequest():
            return end_quorum_epoch.EndQuorumEpochResponse(error_code=error)
        case fetch_snapshot.FetchSnapshotRequest():
            return fetch_snapshot.FetchSnapshotResponse(error_code=error)
        case _:
            return fetch.FetchResponse(error_code=error)


def request_leader(message: Message, listener: str) -> LeaderAddress | None:
    """The address of the leader that has sent a request, at its listener with this name."""
    if not isinstance(message, begin_quorum_epoch.BeginQuorumEpochRequest):
        return None
    for at in message.leader_endpoints:
        if at.name.upper() == listener.upper():
            return LeaderAddress(message.topics[0].partitions[0].leader_id, at.host, at.port)
    return None


def response_leader(message: Message) -> LeaderAddress | None:
    """The address of the leader that a response names."""
    found: Any = message
    return next((LeaderAddress(at.node_id, at.host, at.port) for at in found.node_endpoints), None)


def encode_response(
    response: raft.Response, log_start_offset: int, leader: LeaderAddress | None = None
) -> Message:
    """The message of a response; `leader` is the address of the leader that it names, if this node knows it."""
    message: Any = _encode_response(response, log_start_offset)
    if leader is not None and leader.node_id == response.leader_id:
        endpoint = _ENDPOINTS[type(message)]
        message.node_endpoints = [endpoint(node_id=leader.node_id, host=leader.host, port=leader.port)]
    return message  # type: ignore[no-any-return]


def _encode_response(response: raft.Response, log_start_offset: int) -> Message:
    error, epoch, leader_id = response.error, response.epoch, response.leader_id
    match response:
        case raft.VoteResponse():
            voted = vote.VoteResponsePartitionData(
                error_code=error, leader_id=leader_id, leader_epoch=epoch, vote_granted=response.granted
            )
            return vote.VoteResponse(
                topics=[vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[voted])]
            )
        case raft.BeginEpochResponse():
            begun = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
                error_code=error, leader_id=leader_id, leader_epoch=epoch
            )
            begun_topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(
                topic_name=METADATA_TOPIC, partitions=[begun]
            )
            return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[begun_topic])
        case raft.EndEpochResponse():
            ended = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
                error_code=error, leader_id=leader_id, leader_epoch=epoch
            )
            ended_topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(
                topic_name=METADATA_TOPIC, partitions=[ended]
            )
            return end_quorum_epoch.EndQuorumEpochResponse(topics=[ended_topic])
        case raft.FetchResponse():
            return _fetch_response(response, log_start_offset)
        case raft.FetchSnapshotResponse():
            return _fetch_snapshot_response(response)


def _fetch_response(response: raft.FetchResponse, log_start_offset: int) -> Message:
    partition = fetch.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        records=response.records,
    )
    if response.diverging is not None:
        diverging = response.diverging
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
    if response.snapshot is not None:
        snapshot = response.snapshot
        partition.snapshot_id = fetch.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)
    topic = fetch.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchResponse(responses=[topic])


def _fetch_snapshot_response(response: raft.FetchSnapshotResponse) -> Message:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        error_code=response.error,
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    if response.snapshot is not None:
        partition.snapshot_id = fetch_snapshot.FetchSnapshotResponseSnapshotId(
            end_offset=response.snapshot.offset, epoch=response.snapshot.epoch
        )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])


def decode_response(message: Message) -> raft.Response:
    """The response of another replica; ApiError for a top-level error."""
    found: Any = message
    if found.error_code:
        raise ApiError(ErrorCode(found.error_code))
    topics = found.responses if isinstance(message, fetch.FetchResponse) else found.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise RemoteProtocolError("a response of the quorum does not have exactly one partition")
    partition = topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    match message:
        case vote.VoteResponse():
            return raft.VoteResponse(
                error, partition.leader_epoch, partition.leader_id, partition.vote_granted
            )
        case begin_quorum_epoch.BeginQuorumEpochResponse():
            return raft.BeginEpochResponse(error, partition.leader_epoch, partition.leader_id)
        case end_quorum_epoch.EndQuorumEpochResponse():
            return raft.EndEpochResponse(error, partition.leader_epoch, partition.leader_id)
        case fetch.FetchResponse():
            leader, diverging, snapshot = (
                partition.current_leader,
                partition.diverging_epoch,
                partition.snapshot_id,
            )
            return raft.FetchResponse(
                error,
                leader.leader_epoch,
                leader.leader_id,
                partition.high_watermark,
                bytes(partition.records or b""),
                raft.OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
                raft.OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
            )
        case fetch_snapshot.FetchSnapshotResponse():
            leader, snapshot = partition.current_leader, partition.snapshot_id
            return raft.FetchSnapshotResponse(
                error,
                leader.leader_epoch,
                leader.leader_id,
                raft.OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
                partition.size,
                partition.position,
                bytes(partition.unaligned_records or b""),
            )
        case _:
            raise RemoteProtocolError("not a response of the quorum")
