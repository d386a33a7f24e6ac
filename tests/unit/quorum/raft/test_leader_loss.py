"""Evidence that the leader has failed: who reacts to it, how, and after which pause."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    BeginEpoch,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import Voter, VoterSet
from ottla.testing.cores.memory_log import MemoryLog
from tests.unit.quorum.raft.test_core import Node, following, key, recovering, started


def observing(bootstrap: tuple[int, ...] = ()) -> Node:
    """Node 9, which is no voter, follows node 1 in epoch 5."""
    log = MemoryLog()
    voters = VoterSet(Voter(key(node_id)) for node_id in range(3))
    node = Node(Core(key(9), voters, log, ElectionState(), Random(1), bootstrap=bootstrap), log)
    node.core.start(0)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(9), 5))
    node.take()
    return node


def reject(node: Node) -> None:
    """The other voters reject the pre-vote and name the leader."""
    votes = dict(node.sent())
    for node_id in (1, 2):
        node.core.responded(node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, 5, 1, False))
    assert node.core.role is Role.FOLLOWER


def test_the_loss_of_another_node_is_no_evidence_against_the_leader() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 2)
    assert (node.core.role, node.core.leader_id) == (Role.FOLLOWER, 1)
    assert node.core.wake_at_ms() == 2000


def test_the_loss_of_a_node_means_nothing_to_a_replica_without_a_leader() -> None:
    node = started(0)
    wake_at_ms = node.core.wake_at_ms()
    node.core.peer_lost(node.now, 1)
    assert (node.core.role, node.core.wake_at_ms()) == (Role.UNATTACHED, wake_at_ms)


def test_a_follower_stays_in_contact_until_its_turn_and_then_keeps_the_epoch() -> None:
    node = started(2)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(2), 5))
    node.take()
    node.core.peer_lost(node.now, 1)
    assert node.core.wake_at_ms() == 125
    node.core.peer_lost(node.now, 1)
    assert node.core.wake_at_ms() == 125
    node.pass_time(125)
    assert (node.core.role, node.core.epoch, node.core.leader_id) == (Role.PROSPECTIVE, 5, 1)


def test_a_voter_waits_longer_when_the_others_name_the_lost_leader_again() -> None:
    node = following()
    node.take()
    pauses = []
    for _ in range(5):
        before = node.now
        node.core.peer_lost(node.now, 1)
        while node.core.role is not Role.PROSPECTIVE:
            node.pass_time(1)
        pauses.append(node.now - before)
        reject(node)
    # A rejected pre-vote is repeated after 250 ms at the latest.
    assert pauses == [0, 80, 160, 250, 250]


def test_a_response_of_the_leader_ends_the_series_of_losses() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 1)
    reject(node)
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.PROSPECTIVE


def test_an_election_ends_the_series_of_losses() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 1)
    for epoch in (5, 6):
        votes = dict(node.sent())
        node.core.responded(node.now, 2, votes[2], VoteResponse(ErrorCode.NONE, epoch, -1, True))
    assert node.core.role is Role.LEADER
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 7))
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.PROSPECTIVE


@pytest.mark.parametrize("bootstrap", [(), (-2,)])
def test_an_observer_asks_no_node_for_a_while_when_the_lost_leader_is_named_again(
    bootstrap: tuple[int, ...],
) -> None:
    node = observing(bootstrap)
    node.core.peer_lost(node.now, 1)
    ((asked, probe),) = node.sent()
    named = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1)
    node.core.responded(node.now, asked, probe, named)
    assert (node.core.role, node.core.leader_id) == (Role.FOLLOWER, 1)
    node.take()
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.UNATTACHED
    assert node.sent() == []
    node.pass_time(79)
    assert node.sent() == []
    node.pass_time(1)
    ((asked, _),) = node.sent()
    assert asked in (0, 1, 2, *bootstrap)


def test_a_recovering_voter_looks_for_another_leader_when_its_own_is_lost() -> None:
    node = recovering()
    node.take()
    node.core.peer_lost(node.now, 1)
    assert (node.core.role, node.core.leader_id, node.core.epoch) == (Role.UNATTACHED, -1, 5)


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE])
def test_a_leader_that_leads_no_longer_is_lost(error: ErrorCode) -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(error, 5, -1))
    assert (node.core.role, node.core.epoch) == (Role.PROSPECTIVE, 5)


def test_another_voter_that_does_not_lead_is_no_evidence_against_the_leader() -> None:
    node = recovering()
    requests = dict(node.sent())
    refusal = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1)
    node.core.responded(node.now, 2, requests[2], refusal)
    assert (node.core.role, node.core.leader_id) == (Role.FOLLOWER, 1)


def test_a_follower_whose_leader_is_silent_becomes_prospective_and_an_observer_looks_for_another() -> None:
    for node, role in ((following(), Role.PROSPECTIVE), (observing(), Role.UNATTACHED)):
        node.pass_time(1999)
        assert node.core.role is Role.FOLLOWER
        node.pass_time(1)
        assert (node.core.role, node.core.epoch) == (role, 5)


# A leader that resigns


def test_a_follower_that_a_resigning_leader_does_not_name_waits_for_the_successors() -> None:
    node = following()
    node.take()
    node.core.receive(node.now, "end", EndEpoch(1, 5, (key(2), key(3))))
    assert (node.core.role, node.core.wake_at_ms()) == (Role.FOLLOWER, 250)


def test_the_second_successor_gives_the_first_one_its_turn() -> None:
    node = following()
    node.take()
    node.ask(EndEpoch(1, 5, (key(2), key(0))))
    assert (node.core.role, node.core.wake_at_ms()) == (Role.FOLLOWER, 125)
    granted = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), True))
    assert granted.granted  # type: ignore[union-attr]


def test_the_turn_of_a_late_successor_does_not_extend_the_fetch_timeout() -> None:
    node = following()
    node.take()
    node.pass_time(1900)
    node.ask(EndEpoch(1, 5, (key(2), key(0))))
    assert node.core.wake_at_ms() == 2000


def test_a_leader_that_has_resigned_is_suspected_although_it_has_just_responded() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.ask(EndEpoch(1, 5, (key(2), key(0))))
    granted = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), True))
    assert granted.granted  # type: ignore[union-attr]


def test_an_observer_starts_no_election_when_the_leader_resigns() -> None:
    node = observing()
    node.core.receive(node.now, "end", EndEpoch(1, 5, (key(2), key(9))))
    assert node.core.role is Role.FOLLOWER
    assert node.core.wake_at_ms() == 2000


@pytest.mark.parametrize(
    ("request_", "error", "state"),
    [
        (EndEpoch(1, 4, ()), ErrorCode.FENCED_LEADER_EPOCH, (5, 1)),
        (EndEpoch(2, 4, ()), ErrorCode.FENCED_LEADER_EPOCH, (5, 1)),
        (EndEpoch(2, 6, ()), ErrorCode.NONE, (6, 2)),
        (EndEpoch(0, 6, ()), ErrorCode.INVALID_REQUEST, (5, 1)),
        (EndEpoch(-1, 6, ()), ErrorCode.INVALID_REQUEST, (5, 1)),
    ],
)
def test_the_end_of_another_epoch(request_: EndEpoch, error: ErrorCode, state: tuple[int, int]) -> None:
    node = following()
    node.take()
    response = node.ask(request_)
    assert response.error is error
    assert (response.epoch, response.leader_id) == state
    assert (node.core.epoch, node.core.leader_id) == state
    assert node.core.role is (Role.FOLLOWER if error else Role.PROSPECTIVE)
    assert not error or node.core.wake_at_ms() == 2000


def test_an_announcement_for_another_replica_is_refused_but_names_the_leader() -> None:
    node = started(0)
    response = node.ask(BeginEpoch(1, key(2), 5))
    assert response.error is ErrorCode.INVALID_VOTER_KEY
    assert (node.core.role, node.core.leader_id, node.core.epoch) == (Role.FOLLOWER, 1, 5)


def test_a_fetch_is_sent_to_the_new_leader_at_once() -> None:
    node = following()
    node.take()
    node.core.receive(node.now, "begin", BeginEpoch(2, key(0), 6))
    assert node.sent() == [(2, Fetch(key(0), 6, 0, 0, -1, 500))]
