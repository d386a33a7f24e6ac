"""Requests of the core: when one is sent again after an error or a failure, and which responses count."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import (
    BeginEpoch,
    BeginEpochResponse,
    ElectionState,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
    Persist,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.testing.cores.memory_log import Image, pack
from tests.unit.quorum.raft.test_core import LONG_MS, batches, elected, following, key, started


def test_a_fetch_that_failed_is_sent_again_after_a_pause() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.failed(node.now, 1, fetch)
    assert node.sent() == []
    assert node.core.wake_at_ms() == 20
    node.pass_time(19)
    assert node.sent() == []
    node.pass_time(1)
    ((leader_id, again),) = node.sent()
    assert (leader_id, again) == (1, fetch)


def test_another_node_is_asked_at_once_if_one_does_not_respond() -> None:
    node = started(0)
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 8, OffsetAndEpoch(0, 0), False))
    ((asked, probe),) = node.sent()
    node.core.failed(node.now, asked, probe)
    ((other, _),) = node.sent()
    assert {asked, other} == {1, 2}


def test_a_fetch_with_an_error_is_sent_again_after_a_pause() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.UNKNOWN_SERVER_ERROR, 5, 1))
    assert node.sent() == []
    node.pass_time(20)
    assert [node_id for node_id, _ in node.sent()] == [1]


def test_the_failure_of_a_request_that_is_no_longer_outstanding_delays_nothing() -> None:
    node = following()
    ((_, old_fetch),) = node.sent()
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 6))
    ((_, fetch),) = node.sent()
    node.core.failed(node.now, 1, old_fetch)
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 6, 1, 0))
    assert [node_id for node_id, _ in node.sent()] == [1]


def test_a_fetch_response_with_an_error_changes_neither_the_log_nor_the_timeout() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.pass_time(1500)
    records = pack(batches(5))
    refused = FetchResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, 5, 1, 1, records)
    node.core.responded(node.now, 1, fetch, refused)
    assert node.core.log_end == OffsetAndEpoch(0, 0)
    assert node.core.high_watermark == -1
    node.pass_time(500)
    assert node.core.role is Role.PROSPECTIVE


def test_batches_that_do_not_continue_the_log_are_fetched_again_after_a_pause() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    gap = pack(batches(5, 5, 5)[1:])
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 3, gap))
    assert (node.core.log_end, node.core.high_watermark) == (OffsetAndEpoch(0, 0), -1)
    assert node.sent() == []
    node.pass_time(20)
    assert node.sent() == [(1, fetch)]


def test_a_vote_with_an_error_is_requested_again_and_is_no_rejection() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    for node_id in (1, 2):
        refused = VoteResponse(ErrorCode.INVALID_VOTER_KEY, 0, -1)
        node.core.responded(node.now, node_id, votes[node_id], refused)
    assert node.core.role is Role.PROSPECTIVE
    assert node.sent() == []
    node.pass_time(20)
    assert [node_id for node_id, _ in node.sent()] == [1, 2]


def test_a_vote_with_an_error_is_not_granted() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    refused = VoteResponse(ErrorCode.INVALID_VOTER_KEY, 0, -1, True)
    node.core.responded(node.now, 1, votes[1], refused)
    assert node.core.role is Role.PROSPECTIVE


def test_a_vote_of_an_earlier_epoch_does_not_count() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 0, -1, True))
    assert (node.core.role, node.core.epoch) == (Role.CANDIDATE, 1)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 0, -1, True))
    assert node.core.role is Role.CANDIDATE


def test_a_voter_that_does_not_accept_the_leader_is_notified_again() -> None:
    node = elected()
    begun = {node_id: one for node_id, one in node.sent() if isinstance(one, BeginEpoch)}
    assert begun == {1: BeginEpoch(0, key(1), 1), 2: BeginEpoch(0, key(2), 1)}
    node.core.responded(node.now, 1, begun[1], BeginEpochResponse(ErrorCode.NONE, 1, 0))
    assert node.sent() == []
    node.pass_time(1000)
    assert node.sent() == [(1, BeginEpoch(0, key(1), 1))]  # the request to node 2 is outstanding


def test_an_outstanding_request_to_a_replica_ends_when_it_fetches() -> None:
    """It has found the leader by itself; if it stops fetching it is notified without delay."""
    node = elected()
    node.take()
    node.core.receive(node.now, "fetch", Fetch(key(2), 1, 0, 0, -1, 0))
    node.take()
    node.pass_time(1000)
    assert node.sent() == [(2, BeginEpoch(0, key(2), 1))]


def test_a_replica_without_a_leader_asks_one_node_at_a_time() -> None:
    node = started(0)
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 8, OffsetAndEpoch(0, 0), False))
    assert len(node.sent()) == 1
    node.core.tick(node.now)
    assert node.sent() == []


def test_a_probe_names_the_epoch_and_the_end_of_the_log_and_does_not_wait() -> None:
    node = started(0, image=Image(None, batches(1, 2)))
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 8, OffsetAndEpoch(0, 0), False))
    ((_, probe),) = node.sent()
    assert probe == Fetch(key(0), 8, 2, 2, -1, 0)


@pytest.mark.parametrize(
    ("fetch", "error"),
    [
        (Fetch(key(1), 1, -1, 0, -1, 0), ErrorCode.INVALID_REQUEST),
        (Fetch(key(1), 1, 0, -1, -1, 0), ErrorCode.INVALID_REQUEST),
        (Fetch(key(1), 1, 0, 2, -1, 0), ErrorCode.INVALID_REQUEST),
        (Fetch(key(1), 1, 0, 0, -1, -1), ErrorCode.INVALID_REQUEST),
        (Fetch(key(1), 1, 1, 1, -1, 0), ErrorCode.NONE),
    ],
)
def test_a_fetch_with_impossible_fields_is_refused(fetch: Fetch, error: ErrorCode) -> None:
    response = elected().ask(fetch)
    assert response.error is error
    assert (response.epoch, response.leader_id) == (1, 0)


def test_a_fetch_from_a_replica_that_does_not_lead_names_the_leader() -> None:
    node = following()
    node.take()
    response = node.ask(Fetch(key(2), 5, 0, 0, -1, 0))
    assert response == FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1)


# Epochs and leaders that others name


def test_a_follower_takes_over_a_later_epoch_without_a_leader_from_a_response() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 7, -1))
    assert (node.core.role, node.core.state) == (Role.UNATTACHED, ElectionState(7, -1, None))
    assert Persist(ElectionState(7, -1, None)) in node.take()


@pytest.mark.parametrize("leader_id", [-1, 2])
def test_a_nominee_takes_over_a_later_epoch_from_a_vote(leader_id: int) -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, 7, leader_id))
    role = Role.UNATTACHED if leader_id < 0 else Role.FOLLOWER
    assert (node.core.role, node.core.state) == (role, ElectionState(7, leader_id, None))


def test_a_leader_takes_over_a_later_epoch_from_a_response() -> None:
    node = elected()
    begun = {node_id: one for node_id, one in node.sent() if isinstance(one, BeginEpoch)}
    refused = BeginEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, 3, -1)
    node.core.responded(node.now, 1, begun[1], refused)
    assert (node.core.role, node.core.state) == (Role.UNATTACHED, ElectionState(3, -1, None))


def test_a_response_to_a_probe_names_the_leader_and_changes_nothing_else() -> None:
    node = started(0)
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), False))
    ((asked, probe),) = node.sent()
    response = FetchResponse(ErrorCode.NONE, 5, 1, 1, pack(batches(5)))
    node.core.responded(node.now, asked, probe, response)
    assert (node.core.role, node.core.leader_id) == (Role.FOLLOWER, 1)
    assert (node.core.log_end, node.core.high_watermark) == (OffsetAndEpoch(0, 0), -1)
    assert node.sent() == [(1, Fetch(key(0), 5, 0, 0, -1, 500))]


def test_a_response_of_an_earlier_epoch_is_ignored() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 4, 2, 1, pack(batches(4))))
    assert (node.core.epoch, node.core.leader_id) == (5, 1)
    assert (node.core.log_end, node.core.high_watermark) == (OffsetAndEpoch(0, 0), -1)


def test_a_response_that_names_the_requesting_replica_as_leader_is_no_news() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 0, 0, True))
    assert (node.core.role, node.core.epoch, node.core.leader_id) == (Role.CANDIDATE, 1, -1)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (BeginEpoch(1, key(0), 5), ErrorCode.NONE),
        (BeginEpoch(1, key(2), 5), ErrorCode.INVALID_VOTER_KEY),
        (BeginEpoch(1, key(0), 4), ErrorCode.FENCED_LEADER_EPOCH),
        (BeginEpoch(1, key(2), 4), ErrorCode.FENCED_LEADER_EPOCH),
        (BeginEpoch(-1, key(2), 5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_announcement_is_answered_with_the_leader_of_the_epoch(
    request_: BeginEpoch, error: ErrorCode
) -> None:
    node = following()
    node.take()
    assert node.ask(request_) == BeginEpochResponse(error, 5, 1)
