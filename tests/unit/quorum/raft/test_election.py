"""Votes: when an election is won or lost."""

from __future__ import annotations

import pytest

from ottla.quorum.raft.election import Election
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet


@pytest.mark.parametrize(
    ("voters", "rejected", "lost"),
    [(3, 1, False), (3, 2, True), (4, 1, False), (4, 2, True), (5, 2, False), (5, 3, True)],
)
def test_an_election_is_lost_when_no_majority_is_left(voters: int, rejected: int, lost: bool) -> None:
    election = Election()
    chosen = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(voters))
    for node_id in range(rejected):
        election.count(node_id, granted=False)
    assert election.lost(chosen) is lost
    assert election.open_votes(chosen) == ([] if lost else list(range(rejected, voters)))
