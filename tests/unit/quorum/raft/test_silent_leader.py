"""Voters whose leader is silent: when they vote for another one, and when they start an election."""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import BeginEpoch, FetchResponse, OffsetAndEpoch, Vote
from ottla.quorum.raft.roles import Role
from tests.unit.quorum.raft.test_core import key, started


def test_a_follower_whose_leader_is_silent_grants_a_pre_vote_before_its_own_turn() -> None:
    node = started(2)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(2), 5))
    ((leader_id, fetch),) = node.sent()
    node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.pass_time(1999)
    refused = node.ask(Vote(key(0), key(2), 5, OffsetAndEpoch(0, 0), True))
    assert not refused.granted  # type: ignore[union-attr]
    node.pass_time(1)
    assert node.core.role is Role.FOLLOWER
    granted = node.ask(Vote(key(0), key(2), 5, OffsetAndEpoch(0, 0), True))
    assert granted.granted  # type: ignore[union-attr]


def test_voters_that_lose_their_leader_at_the_same_moment_start_elections_one_after_the_other() -> None:
    """If all of them become candidates of one epoch, each has its own vote, and none is elected."""
    starts = []
    for node_id in (0, 2, 3):
        node = started(node_id, voters=4)
        node.core.receive(node.now, "begin", BeginEpoch(1, key(node_id), 5))
        ((leader_id, fetch),) = node.sent()
        node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
        node.take()
        starts.append(node.core.wake_at_ms() - node.now)
    assert starts == [2000, 2125, 2250]
