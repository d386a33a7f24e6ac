"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: the checks that do not depend on the state of the quorum's log.

A request that passes them is decided by the quorum (`quorum.raft.changes`). Static voters (kraft.version 0) are neither
added nor removed: UNSUPPORTED_VERSION. An update of one of them succeeds without an effect; in Kafka it is the
preparation of an upgrade to kraft.version 1.

Only the leader of the quorum responds; the order of the checks is Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.settled import settled
from ottla.metadata.features import KRAFT_VERSION
from ottla.quorum.quorum import ChangeResult, ListenerAddress, Quorum, QuorumStatus, VoterChange
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


async def add_voter(
    members: QuorumMembers, quorum: Quorum, request: AddRaftVoterRequest
) -> AddRaftVoterResponse:
    """Add a voter; the response is sent when the change is committed, or sooner if the request says so."""
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, members.status.leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_listener(members, [each.name for each in request.listeners])
        _check_dynamic(members)
    except ApiError as error:
        return AddRaftVoterResponse(error_code=error.code, error_message=error.message or "")
    listeners = tuple(ListenerAddress(each.name, each.host, each.port) for each in request.listeners)
    voter = VoterChange(request.voter_id, request.voter_directory_id, listeners)
    result = await settled(
        quorum.add_voter(voter, request.timeout_ms, wait_for_commit=request.ack_when_committed)
    )
    return AddRaftVoterResponse(error_code=result.error, error_message=result.message)


async def remove_voter(
    members: QuorumMembers, quorum: Quorum, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    """Remove a voter; the response is sent when the change is committed."""
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, members.status.leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_dynamic(members)
    except ApiError as error:
        return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message or "")
    result = await settled(quorum.remove_voter(request.voter_id, request.voter_directory_id))
    return RemoveRaftVoterResponse(error_code=result.error, error_message=result.message)


async def update_voter(
    members: QuorumMembers, quorum: Quorum, request: UpdateRaftVoterRequest, listener: str
) -> UpdateRaftVoterResponse:
    """Update the addresses of a voter; `listener` is the one at which the request arrived."""
    leader = _leader(members.status, listener)
    supported = request.kraft_version_feature
    low, high = supported.min_supported_version, supported.max_supported_version
    try:
        _check_cluster(members, request.cluster_id)
        _check_leader(members, request.current_leader_epoch)
        _check_voter(request.voter_id, request.voter_directory_id)
        _check_listener(members, [each.name for each in request.listeners])
        if not 0 <= low <= members.kraft_version <= high:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not members.kraft_version and all(
            each.node_id != request.voter_id for each in members.status.voters
        ):
            raise ApiError(ErrorCode.VOTER_NOT_FOUND)
    except ApiError as error:
        return UpdateRaftVoterResponse(error_code=error.code, current_leader=leader)
    result = ChangeResult(ErrorCode.NONE)
    if members.kraft_version:
        listeners = tuple(ListenerAddress(each.name, each.host, each.port) for each in request.listeners)
        voter = VoterChange(request.voter_id, request.voter_directory_id, listeners, (low, high))
        result = await settled(quorum.update_voter(voter))
    return UpdateRaftVoterResponse(error_code=result.error, current_leader=leader)


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


def _leader(status: QuorumStatus, listener: str) -> CurrentLeader:
    host, port = "", 0
    for voter in status.voters:
        for at in voter.listeners:
            if voter.node_id == status.leader_id and at.name == listener:
                host, port = at.host, at.port
    return CurrentLeader(leader_id=status.leader_id, leader_epoch=status.leader_epoch, host=host, port=port)
