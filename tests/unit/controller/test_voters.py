"""Codes and order of checks are those of Apache Kafka 4.3.1, with static voters and with voters in the log."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.promise import Promise
from ottla.controller import voters as requests
from ottla.controller.voters import QuorumMembers
from ottla.quorum.quorum import ChangeResult, ListenerAddress, QuorumStatus, ReplicaStatus, VoterChange
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import (
    KRaftVersionFeature,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from ottla.wire.messages.update_raft_voter import Listener as UpdateListener

DIRECTORY, OTHER = uuid.UUID(int=4), uuid.UUID(int=5)
STATIC, DYNAMIC = 0, 1
Fields = dict[str, Any]


def members(kraft_version: int, **changes: Any) -> QuorumMembers:
    ids = (1, 2, 3) if kraft_version == STATIC else (1,)
    directory_id = ZERO_UUID if kraft_version == STATIC else DIRECTORY
    voters = tuple(
        ReplicaStatus(each, directory_id, 12, 0, 0, (ListenerAddress("CONTROLLER", "h", 9000 + each),))
        for each in ids
    )
    status = QuorumStatus(
        leader_id=changes.pop("leader_id", 1), leader_epoch=3, high_watermark=12, voters=voters
    )
    fields: Fields = {"cluster_id": "c", "local_id": 1, "listener": "CONTROLLER", **changes}
    return QuorumMembers(kraft_version=kraft_version, status=status, **fields)


def addition(**changes: Any) -> AddRaftVoterRequest:
    listeners = [Listener(name="CONTROLLER", host="h", port=9)]
    fields: Fields = {"cluster_id": "c", "voter_id": 9, "voter_directory_id": OTHER, "listeners": listeners}
    return AddRaftVoterRequest(**fields | changes)


def removal(**changes: Any) -> RemoveRaftVoterRequest:
    fields: Fields = {"cluster_id": "c", "voter_id": 9, "voter_directory_id": OTHER}
    return RemoveRaftVoterRequest(**fields | changes)


def update(**changes: Any) -> UpdateRaftVoterRequest:
    fields: Fields = {
        "cluster_id": "c",
        "current_leader_epoch": 3,
        "voter_id": 2,
        "voter_directory_id": OTHER,
        "listeners": [UpdateListener(name="CONTROLLER", host="h", port=9)],
        "kraft_version_feature": KRaftVersionFeature(max_supported_version=1),
    }
    return UpdateRaftVoterRequest(**fields | changes)


def feature(low: int, high: int) -> Fields:
    return {
        "kraft_version_feature": KRaftVersionFeature(min_supported_version=low, max_supported_version=high)
    }


class Changes:
    """Stands for the quorum: records the changes that reach it, and refuses each with one error."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def add_voter(self, *change: Any, wait_for_commit: bool) -> Promise[ChangeResult]:
        return self._note(*change, wait_for_commit)

    def remove_voter(self, *change: Any) -> Promise[ChangeResult]:
        return self._note(*change)

    def update_voter(self, *change: Any) -> Promise[ChangeResult]:
        return self._note(*change)

    def _note(self, *change: Any) -> Promise[ChangeResult]:
        self.seen.append(change)
        return Promise.kept(ChangeResult(ErrorCode.DUPLICATE_VOTER, "text"))


def add_voter(known: QuorumMembers, request: AddRaftVoterRequest, quorum: Any = None) -> AddRaftVoterResponse:
    return asyncio.run(requests.add_voter(known, quorum, request))


def remove_voter(
    known: QuorumMembers, request: RemoveRaftVoterRequest, quorum: Any = None
) -> RemoveRaftVoterResponse:
    return asyncio.run(requests.remove_voter(known, quorum, request))


def update_voter(
    known: QuorumMembers, request: UpdateRaftVoterRequest, listener: str, quorum: Any = None
) -> UpdateRaftVoterResponse:
    return asyncio.run(requests.update_voter(known, quorum, request, listener))


INVALID: list[Fields] = [{"voter_id": -1}, {"voter_id": -5}, {"voter_directory_id": ZERO_UUID}]


@pytest.mark.parametrize("kraft_version", [STATIC, DYNAMIC])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other", "voter_id": -1}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        *((each, ErrorCode.INVALID_REQUEST) for each in INVALID),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        ({"listeners": [Listener(name="X", host="h", port=9)]}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_addition_is_checked(kraft_version: int, changes: Fields, code: ErrorCode) -> None:
    response = add_voter(members(kraft_version), addition(**changes))
    assert response.error_code == code
    assert response.error_message


@pytest.mark.parametrize("voter_id", [1, 9])
def test_static_voters_cannot_be_added_or_removed(voter_id: int) -> None:
    added = add_voter(members(STATIC), addition(voter_id=voter_id))
    removed = remove_voter(members(STATIC), removal(voter_id=voter_id))
    assert added.error_code == removed.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "kraft.version" in (added.error_message or "")
    assert "kraft.version" in (removed.error_message or "")


@pytest.mark.parametrize("cluster_id", ["c", None])
def test_the_quorum_decides_on_changes_of_voters_in_the_log(cluster_id: str | None) -> None:
    quorum, known = Changes(), members(DYNAMIC)
    added = add_voter(known, addition(cluster_id=cluster_id, timeout_ms=7, ack_when_committed=False), quorum)
    removed = remove_voter(known, removal(cluster_id=cluster_id), quorum)
    updated = update_voter(known, update(cluster_id=cluster_id, **feature(0, 2)), "CONTROLLER", quorum)
    assert {each.error_code for each in (added, removed, updated)} == {ErrorCode.DUPLICATE_VOTER}
    assert (added.error_message, removed.error_message) == ("text", "text")
    listeners = (ListenerAddress("CONTROLLER", "h", 9),)
    assert quorum.seen == [
        (VoterChange(9, OTHER, listeners), 7, False),
        (9, OTHER),
        (VoterChange(2, OTHER, listeners, (0, 2)),),
    ]


@pytest.mark.parametrize("kraft_version", [STATIC, DYNAMIC])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other", "voter_id": -1}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        *((each, ErrorCode.INVALID_REQUEST) for each in INVALID),
    ],
)
def test_a_removal_is_checked(kraft_version: int, changes: Fields, code: ErrorCode) -> None:
    response = remove_voter(members(kraft_version), removal(**changes))
    assert response.error_code == code
    assert response.error_message


def test_only_the_leader_responds() -> None:
    for other in (2, -1):
        follower = members(STATIC, leader_id=other)
        added, removed = (
            add_voter(follower, addition(voter_id=-1)),
            remove_voter(follower, removal(voter_id=-1)),
        )
        assert (added.error_code, added.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        assert (removed.error_code, removed.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        updated = update_voter(follower, update(voter_id=-1), "CONTROLLER")
        assert updated.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"current_leader_epoch": 2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        *((each, ErrorCode.INVALID_REQUEST) for each in INVALID),
        ({"listeners": []}, ErrorCode.INVALID_REQUEST),
        (feature(-1, 1), ErrorCode.INVALID_REQUEST),
        (feature(1, 0), ErrorCode.INVALID_REQUEST),
        (feature(1, 1), ErrorCode.INVALID_REQUEST),
        ({"voter_id": 9}, ErrorCode.VOTER_NOT_FOUND),
        ({}, ErrorCode.NONE),
        (feature(0, 0), ErrorCode.NONE),
    ],
)
def test_an_update_of_a_static_voter(changes: Fields, code: ErrorCode) -> None:
    response = update_voter(members(STATIC), update(**changes), "CONTROLLER")
    leader = response.current_leader
    assert response.error_code == code
    assert (leader.leader_id, leader.leader_epoch, leader.host, leader.port) == (1, 3, "h", 9001)


def test_an_update_must_support_the_level_of_voters_in_the_log() -> None:
    response = update_voter(members(DYNAMIC), update(**feature(0, 0)), "CONTROLLER")
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_the_leader_has_no_address_on_another_listener() -> None:
    leader = update_voter(members(STATIC), update(), "OTHER").current_leader
    assert (leader.leader_id, leader.host, leader.port) == (1, "", 0)
