"""Replica keys and majorities of voters."""

from __future__ import annotations

import uuid

import pytest

from ottla.base.ids import ZERO_UUID
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet

FIRST, SECOND = uuid.UUID(int=11), uuid.UUID(int=12)


@pytest.mark.parametrize(
    ("mine", "other", "matches"),
    [
        (ReplicaKey(1, FIRST), ReplicaKey(1, FIRST), True),
        (ReplicaKey(1, FIRST), ReplicaKey(1, SECOND), False),
        (ReplicaKey(1, FIRST), ReplicaKey(1, ZERO_UUID), True),
        (ReplicaKey(1, ZERO_UUID), ReplicaKey(1, SECOND), True),
        (ReplicaKey(1, FIRST), ReplicaKey(2, FIRST), False),
        (ReplicaKey(1, ZERO_UUID), ReplicaKey(2, ZERO_UUID), False),
    ],
)
def test_an_unknown_directory_matches_every_directory(
    mine: ReplicaKey, other: ReplicaKey, matches: bool
) -> None:
    assert mine.matches(other) is matches


def test_a_voter_with_a_directory_is_that_replica_only() -> None:
    voters = VoterSet([Voter(ReplicaKey(1, FIRST)), Voter(ReplicaKey(2))])
    assert ReplicaKey(1, FIRST) in voters
    assert ReplicaKey(1, SECOND) not in voters
    assert ReplicaKey(1) not in voters
    assert ReplicaKey(2, SECOND) in voters  # a static voter: its directory is not known
    assert ReplicaKey(3) not in voters


def test_the_key_of_a_voter_names_its_directory() -> None:
    voters = VoterSet([Voter(ReplicaKey(1, FIRST))])
    assert voters.key(1) == ReplicaKey(1, FIRST)
    assert voters.key(2) == ReplicaKey(2, ZERO_UUID)


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(count))
    assert voters.majority == majority
    assert voters.has_majority(range(majority))
    assert not voters.has_majority(range(majority - 1))
    assert not voters.has_majority([*range(majority - 1), 70, 71])
    assert voters.majority_value(lambda voter: voter.key.node_id) == count - majority


def test_sets_are_equal_if_all_voters_are() -> None:
    one = VoterSet([Voter(ReplicaKey(1, FIRST))])
    assert one == VoterSet([Voter(ReplicaKey(1, FIRST))])
    assert one != VoterSet([Voter(ReplicaKey(1, SECOND))])
    assert one != "voters"
