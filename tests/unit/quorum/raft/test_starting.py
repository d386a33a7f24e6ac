"""How a replica joins its quorum at a start: with which epoch, leader and vote, and when it starts an election."""

from __future__ import annotations

import pytest

from ottla.base.rng import Random
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import ElectionState, Fetch, OffsetAndEpoch, Vote
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import Voter, VoterSet
from ottla.testing.cores.memory_log import Image, MemoryLog
from tests.unit.quorum.raft.test_core import LONG_MS, Node, batches, key, make, started


def recovering(voters: int) -> Node:
    """Node 0 has lost its log and has just started."""
    log = MemoryLog()
    voter_set = VoterSet(Voter(key(node_id)) for node_id in range(voters))
    node = Node(Core(key(0), voter_set, log, ElectionState(), Random(1), recovering=True), log)
    node.core.start(0)
    return node


def test_a_replica_follows_the_leader_that_it_knew_before_its_restart() -> None:
    node = make(0, image=Image(None, batches(3)), state=ElectionState(4, 1, key(2)))
    node.core.start(0)
    assert (node.core.role, node.core.leader_id, node.core.epoch) == (Role.FOLLOWER, 1, 4)
    ((leader_id, request),) = node.sent()
    assert (leader_id, request) == (1, Fetch(key(0), 4, 1, 3, -1, 500))
    assert node.core.state == ElectionState(4, 1, key(2))


def test_a_restarted_leader_names_no_leader() -> None:
    node = started(0, state=ElectionState(4, 0, key(0)))
    assert node.core.leader_id == -1
    assert node.core.state == ElectionState(4, -1, key(0))


def test_the_epoch_of_the_log_counts_if_the_stored_one_is_lower() -> None:
    """The leader and the vote are those of the lower epoch, so they do not count."""
    node = started(0, image=Image(None, batches(1, 6)), state=ElectionState(4, 1, key(1)))
    assert (node.core.role, node.core.state) == (Role.UNATTACHED, ElectionState(6, -1, None))
    fenced = node.ask(Vote(key(1), key(0), 5, OffsetAndEpoch(9, 4), False))
    assert fenced.epoch == 6
    assert node.ask(Vote(key(2), key(0), 7, OffsetAndEpoch(9, 6), False)).granted  # type: ignore[union-attr]


def test_the_stored_epoch_counts_if_that_of_the_log_is_lower() -> None:
    node = started(0, image=Image(None, batches(1, 2)), state=ElectionState(4, -1, key(1)))
    assert node.core.state == ElectionState(4, -1, key(1))


def test_voters_that_start_together_begin_elections_one_after_the_other() -> None:
    assert [started(node_id).core.wake_at_ms() for node_id in range(3)] == [125, 250, 375]


def test_an_observer_looks_for_the_leader_again_after_the_election_timeout() -> None:
    node = started(9)
    assert 1000 <= node.core.wake_at_ms() < 2000


@pytest.mark.parametrize("voters", [1, 3])
def test_a_voter_that_has_lost_its_log_starts_no_election(voters: int) -> None:
    node = recovering(voters)
    assert node.core.role is Role.UNATTACHED
    assert node.core.wake_at_ms() >= 1000
    node.pass_time(LONG_MS)
    assert (node.core.role, node.core.epoch) == (Role.UNATTACHED, 0)


def test_an_observer_does_not_recover() -> None:
    log = MemoryLog()
    voters = VoterSet(Voter(key(node_id)) for node_id in range(3))
    core = Core(key(9), voters, log, ElectionState(), Random(1), recovering=True)
    core.start(0)
    vote = Vote(key(1), key(9), 5, OffsetAndEpoch(0, 0), False)
    assert Node(core, log).ask(vote).granted  # type: ignore[union-attr]
