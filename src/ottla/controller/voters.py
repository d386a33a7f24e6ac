"""The responses to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.

Voters never change here, so these are the responses of Kafka to requests that change nothing:

- Static voters (kraft.version 0) are neither added nor removed: UNSUPPORTED_VERSION. An update of one of them succeeds
  without an effect; in Kafka it is the preparation of an upgrade to kraft.version 1.
- Voters in the log (kraft.version 1) are those of a quorum of one. No other replica can follow it, so a new voter does
  not have the log in time: REQUEST_TIMED_OUT. The last voter is not removed: VOTER_NOT_FOUND. It updates itself
  when it starts and never by a request: INVALID_REQUEST.

Only the leader of the quorum responds; the order of the checks is Kafka's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.metadata.features import KRAFT_VERSION
from ottla.quorum.quorum import QuorumStatus
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)


class QuorumMembers(NamedTuple):
    """The quorum, as one of its replicas sees it."""

    cluster_id: str
    local_id: int
    listener: str
    """The name of the listener through which the voters connect to each other."""
    kraft_version: int
    status: QuorumStatus


def add_voter(members: QuorumMembers, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Refuse a new voter."""
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, members.status.leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_listener(members, [each.name for each in request.listeners])
        _check_dynamic(members)
        if any(voter.node_id == request.voter_id for voter in members.status.voters):
            raise ApiError(ErrorCode.DUPLICATE_VOTER, f"node {request.voter_id} is a voter already")
    except ApiError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message or "")
    text = f"node {request.voter_id} does not follow the metadata log: a quorum of one has no other replicas"
    return AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)


def remove_voter(members: QuorumMembers, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Refuse to remove a voter."""
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, members.status.leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_dynamic(members)
    except ApiError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message or "")
    known = _is_voter(members, request.voter_id, request.voter_directory_id)
    text = "the last voter cannot be removed" if known else "no voter has this node id and directory id"
    return RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message=text)


def update_voter(
    members: QuorumMembers, request: UpdateRaftVoterRequest, listener: str
) -> UpdateRaftVoterResponse:
    """Check an update of a voter; `listener` is the one at which the request arrived."""
    leader = _leader(members.status, listener)
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, request.current_leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_listener(members, [each.name for each in request.listeners])
        supported = request.kraft_version_feature
        low, high = supported.min_supported_version, supported.max_supported_version
        if not 0 <= low <= members.kraft_version <= high:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not _is_voter(members, request.voter_id, request.voter_directory_id):
            raise ApiError(ErrorCode.VOTER_NOT_FOUND)
        if members.kraft_version:
            raise ApiError(ErrorCode.INVALID_REQUEST)
    except ApiError as error:
        return UpdateRaftVoterResponse(error_code=error.code, current_leader=leader)
    return UpdateRaftVoterResponse(current_leader=leader)


def _check_cluster(members: QuorumMembers, cluster_id: str | None) -> None:
    if cluster_id not in (None, members.cluster_id):
        text = f"the request names cluster {cluster_id}, but this is cluster {members.cluster_id}"
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)


def _check_leader(members: QuorumMembers, epoch: int) -> None:
    current = members.status.leader_epoch
    if epoch != current:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH)
    if members.status.leader_id != members.local_id:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _check_voter(voter_id: int, directory_id: Uuid) -> None:
    if voter_id < 0 or directory_id == ZERO_UUID:
        text = f"a voter has a node id and a directory id: node {voter_id}, directory {directory_id}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)


def _check_listener(members: QuorumMembers, names: Iterable[str]) -> None:
    if members.listener.upper() not in (each.upper() for each in names):
        text = f"the voter has no address for the listener {members.listener} of controllers"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)


def _check_dynamic(members: QuorumMembers) -> None:
    if not members.kraft_version:
        text = f"the voters are static ({KRAFT_VERSION} is 0): they are changed by controller.quorum.voters"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


def _is_voter(members: QuorumMembers, node_id: int, directory_id: Uuid) -> bool:
    """Whether there is such a voter. The directories of static voters are not recorded."""
    return any(
        voter.node_id == node_id and (voter.directory_id == directory_id or not members.kraft_version)
        for voter in members.status.voters
    )


def _leader(status: QuorumStatus, listener: str) -> CurrentLeader:
    host, port = "", 0
    for voter in status.voters:
        for at in voter.listeners:
            if voter.node_id == status.leader_id and at.name == listener:
                host, port = at.host, at.port
    return CurrentLeader(leader_id=status.leader_id, leader_epoch=status.leader_epoch, host=host, port=port)
