"""Epochs, votes and divergence of the core in the rarer orders of events."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.quorum.raft.messages import (
    EPOCH_MAX,
    BeginEpoch,
    BeginEpochResponse,
    ElectionState,
    EndEpoch,
    FetchResponse,
    OffsetAndEpoch,
    Persist,
    Respond,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.testing.cores.memory_log import Batch, Image
from tests.unit.quorum.raft.test_core import LONG_MS, Node, batches, elected, following, key, make, started


def test_an_epoch_is_persisted_before_the_vote_in_it_is_refused() -> None:
    node = started(0, image=Image(None, batches(1, 2, 3)))
    node.core.receive(node.now, "token", Vote(key(1), key(0), 7, OffsetAndEpoch(0, 0), False))
    effects = node.take()
    answer = next(at for at, effect in enumerate(effects) if isinstance(effect, Respond))
    assert Persist(ElectionState(7, -1, None)) in effects[:answer]


@pytest.mark.parametrize(
    ("last", "pre_vote", "valid"),
    [
        (OffsetAndEpoch(5, 6), False, True),
        (OffsetAndEpoch(5, 7), False, False),
        (OffsetAndEpoch(5, 7), True, True),
        (OffsetAndEpoch(5, 8), True, False),
        (OffsetAndEpoch(-1, 6), False, False),
        (OffsetAndEpoch(5, -1), False, False),
    ],
)
def test_a_log_cannot_be_ahead_of_the_epoch_of_its_candidate(
    last: OffsetAndEpoch, pre_vote: bool, valid: bool
) -> None:
    response = started(0).ask(Vote(key(1), key(0), 7, last, pre_vote))
    assert response.error is (ErrorCode.NONE if valid else ErrorCode.INVALID_REQUEST)


def test_no_vote_is_given_in_an_epoch_with_a_known_leader() -> None:
    node = following()
    node.take()
    response = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(9, 4), False))
    assert response == VoteResponse(ErrorCode.NONE, 5, 1, False)


def test_a_follower_takes_over_the_leader_of_a_later_epoch_from_a_response() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 6, 2))
    assert (node.core.role, node.core.epoch, node.core.leader_id) == (Role.FOLLOWER, 6, 2)
    assert Persist(ElectionState(6, 2, None)) in node.take()


@pytest.mark.parametrize(
    ("leader_id", "epoch", "error"),
    [
        (0, 5, ErrorCode.INVALID_REQUEST),
        (0, 6, ErrorCode.INVALID_REQUEST),
        (-1, 6, ErrorCode.INVALID_REQUEST),
        (-1, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (0, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 4, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_replica_does_not_accept_itself_as_leader(leader_id: int, epoch: int, error: ErrorCode) -> None:
    node = following()
    node.take()
    assert node.ask(BeginEpoch(leader_id, key(0), epoch)).error is error
    assert (node.core.role, node.core.epoch, node.core.leader_id) == (Role.FOLLOWER, 5, 1)


def test_a_request_of_an_earlier_version_names_no_voter() -> None:
    node = started(0)
    assert node.ask(Vote(key(1), key(-1), 6, OffsetAndEpoch(0, 0), False)) == VoteResponse(
        ErrorCode.NONE, 6, -1, True
    )
    assert node.ask(BeginEpoch(1, key(-1), 6)) == BeginEpochResponse(ErrorCode.NONE, 6, 1)


@pytest.mark.parametrize(
    ("epoch", "error"), [(6, ErrorCode.FENCED_LEADER_EPOCH), (7, ErrorCode.INVALID_REQUEST)]
)
def test_a_vote_for_no_candidate_is_refused_after_the_check_of_its_epoch(
    epoch: int, error: ErrorCode
) -> None:
    node = started(0, state=ElectionState(7, -1, None))
    assert node.ask(Vote(key(-1), key(0), epoch, OffsetAndEpoch(0, 0), False)).error is error


@pytest.mark.parametrize("request_", [BeginEpoch(0, key(0), 1), EndEpoch(0, 1, ())])
def test_a_leader_that_is_named_as_the_leader_stays(request_: BeginEpoch | EndEpoch) -> None:
    node = elected()
    node.take()
    response = node.ask(request_)
    assert (response.error, response.epoch, response.leader_id) == (ErrorCode.NONE, 1, 0)
    assert node.core.role is Role.LEADER


def test_a_lost_pre_vote_without_a_leader_is_repeated_later() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 0, -1, False))
    assert node.core.role is Role.PROSPECTIVE
    node.core.responded(node.now, 2, votes[2], VoteResponse(ErrorCode.NONE, 0, -1, False))
    assert (node.core.role, node.core.leader_id) == (Role.UNATTACHED, -1)
    node.pass_time(LONG_MS)
    assert node.core.role is Role.PROSPECTIVE


def test_a_leader_gives_no_vote_in_its_epoch() -> None:
    response = elected().ask(Vote(key(2), key(0), 1, OffsetAndEpoch(9, 0), False))
    assert not response.granted  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("mine", "diverging", "kept"),
    [
        ((1, 3, 3, 3), OffsetAndEpoch(2, 3), 2),
        ((1, 3), OffsetAndEpoch(5, 3), 2),
        ((1, 1, 1, 4), OffsetAndEpoch(2, 3), 3),
        ((1, 1, 4), OffsetAndEpoch(9, 3), 2),
        ((1, 3, 4, 4), OffsetAndEpoch(3, 3), 2),
    ],
)
def test_a_follower_truncates_to_the_end_of_the_last_common_epoch(
    mine: tuple[int, ...], diverging: OffsetAndEpoch, kept: int
) -> None:
    node = following(Image(None, batches(*mine)))
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0, diverging=diverging))
    assert node.core.log_end.offset == kept


def test_a_follower_truncates_to_its_high_watermark() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 2))
    ((_, fetch),) = node.sent()
    diverging = FetchResponse(ErrorCode.NONE, 5, 1, 2, diverging=OffsetAndEpoch(2, 2))
    node.core.responded(node.now, 1, fetch, diverging)
    assert node.core.log_end == OffsetAndEpoch(2, 2)


def test_a_response_of_the_leader_ends_the_suspicion() -> None:
    node = started(2)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(2), 5))
    ((_, fetch),) = node.sent()
    node.core.peer_lost(node.now, 1)
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    refused = node.ask(Vote(key(0), key(2), 5, OffsetAndEpoch(0, 0), True))
    assert not refused.granted  # type: ignore[union-attr]


def test_a_follower_that_has_not_fetched_yet_grants_a_pre_vote() -> None:
    node = following()
    node.take()
    granted = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), True))
    assert granted.granted  # type: ignore[union-attr]


def test_the_high_watermark_of_a_follower_is_limited_to_its_log() -> None:
    node = following(Image(None, (Batch(0, 1, 4, (b"value",)),)))
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 50))
    assert node.core.high_watermark == 1


def win(node: Node) -> None:
    """Node 1 grants the vote, or the pre-vote, that node 0 requests."""
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, node.core.epoch, -1, True))


def test_no_election_begins_in_the_largest_epoch() -> None:
    """Another node can name any epoch; the epoch that follows the largest cannot be sent."""
    node = started(0)
    node.ask(Vote(key(1), key(0), EPOCH_MAX, OffsetAndEpoch(0, 0), False))
    for _ in range(2):
        node.pass_time(LONG_MS)
        assert node.core.role is Role.PROSPECTIVE
        win(node)
        assert (node.core.role, node.core.epoch) == (Role.UNATTACHED, EPOCH_MAX)


def test_the_largest_epoch_can_be_led_and_given_up() -> None:
    node = started(0)
    node.ask(Vote(key(1), key(0), EPOCH_MAX - 1, OffsetAndEpoch(0, 0), False))
    node.pass_time(LONG_MS)
    win(node)
    win(node)
    assert (node.core.role, node.core.epoch) == (Role.LEADER, EPOCH_MAX)
    node.core.resign(node.now)
    node.pass_time(LONG_MS)
    assert (node.core.role, node.core.epoch) == (Role.UNATTACHED, EPOCH_MAX)


def test_the_only_voter_does_not_lead_after_the_largest_epoch() -> None:
    node = make(voters=1, state=ElectionState(EPOCH_MAX))
    node.core.start(0)
    assert (node.core.role, node.core.epoch) == (Role.UNATTACHED, EPOCH_MAX)


@pytest.mark.parametrize("request_type", [BeginEpoch, EndEpoch])
@pytest.mark.parametrize("leads", [False, True])
def test_a_request_that_names_another_leader_of_the_epoch_is_refused(request_type: type, leads: bool) -> None:
    node = elected() if leads else following()
    node.take()
    role, epoch, leader_id = node.core.role, node.core.epoch, node.core.leader_id
    named = BeginEpoch(2, key(0), epoch) if request_type is BeginEpoch else EndEpoch(2, epoch, (key(0),))
    response = node.ask(named)
    assert (response.error, response.epoch, response.leader_id) == (
        ErrorCode.INVALID_REQUEST,
        epoch,
        leader_id,
    )
    assert (node.core.role, node.core.epoch, node.core.leader_id) == (role, epoch, leader_id)
