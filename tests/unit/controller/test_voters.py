"""Codes and order of checks are those of Apache Kafka 4.3.1, with static voters and with voters in the log."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.controller.voters import QuorumMembers, add_voter, remove_voter, update_voter
from ottla.quorum.quorum import ListenerAddress, QuorumStatus, ReplicaStatus
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
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


def test_an_addition_to_voters_in_the_log() -> None:
    assert add_voter(members(DYNAMIC), addition(voter_id=1)).error_code == ErrorCode.DUPLICATE_VOTER
    assert (
        add_voter(members(DYNAMIC), addition(cluster_id=None, voter_id=1)).error_code
        == ErrorCode.DUPLICATE_VOTER
    )
    # No replica can follow a quorum of one, so none has the log in time.
    assert add_voter(members(DYNAMIC), addition()).error_code == ErrorCode.REQUEST_TIMED_OUT


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


@pytest.mark.parametrize(
    "changes", [{}, {"voter_id": 1}, {"voter_id": 1, "voter_directory_id": DIRECTORY}, {"cluster_id": None}]
)
def test_the_last_voter_and_unknown_ones_are_not_removed(changes: Fields) -> None:
    assert remove_voter(members(DYNAMIC), removal(**changes)).error_code == ErrorCode.VOTER_NOT_FOUND


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


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"voter_id": 9}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter_id": 1}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter_id": 1, **feature(0, 0)}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 1, "voter_directory_id": DIRECTORY}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_update_of_voters_in_the_log(changes: Fields, code: ErrorCode) -> None:
    assert update_voter(members(DYNAMIC), update(**changes), "CONTROLLER").error_code == code


def test_the_leader_has_no_address_on_another_listener() -> None:
    leader = update_voter(members(STATIC), update(), "OTHER").current_leader
    assert (leader.leader_id, leader.host, leader.port) == (1, "", 0)
