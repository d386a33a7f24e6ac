"""What a change of the role keeps, forgets, persists and reports, and how long each role lasts."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.quorum.quorum import NotLeader
from ottla.quorum.raft.messages import (
    BeginEpoch,
    ElectionState,
    EndEpoch,
    EndEpochResponse,
    Fetch,
    FetchResponse,
    LeaderChanged,
    OffsetAndEpoch,
    Persist,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.testing.cores.memory_log import Image, pack
from tests.unit.quorum.raft.test_core import LONG_MS, Node, batches, elected, following, key, make, started


def vote(node: Node, node_id: int, *, granted: bool) -> None:
    """A voter responds to the vote, or to the pre-vote, that was just sent to it."""
    votes = {at: one for at, one in node.sent() if isinstance(one, Vote)}
    node.core.responded(
        node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, node.core.epoch, -1, granted)
    )


def lose_pre_vote(node: Node) -> None:
    votes = dict(node.sent())
    for node_id in (1, 2):
        response = VoteResponse(ErrorCode.NONE, node.core.epoch, -1, False)
        node.core.responded(node.now, node_id, votes[node_id], response)


def resigned() -> Node:
    """Node 0 has led epoch 1."""
    node = elected()
    node.take()
    node.core.resign(node.now)
    return node


# Votes and epochs


def test_a_lost_pre_vote_keeps_the_vote_of_the_epoch() -> None:
    node = started(0)
    assert node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False)).granted  # type: ignore[union-attr]
    node.pass_time(LONG_MS)
    lose_pre_vote(node)
    assert (node.core.role, node.core.state) == (Role.UNATTACHED, ElectionState(3, -1, key(1)))
    assert not node.ask(Vote(key(2), key(0), 3, OffsetAndEpoch(9, 2), False)).granted  # type: ignore[union-attr]


def test_the_vote_of_an_epoch_is_kept_when_its_leader_is_found() -> None:
    node = started(0)
    node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 3))
    assert Persist(ElectionState(3, 1, key(1))) in node.take()


def test_a_replica_that_has_voted_votes_again_in_a_later_epoch() -> None:
    node = started(0)
    node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    assert node.ask(Vote(key(2), key(0), 4, OffsetAndEpoch(0, 0), False)).granted  # type: ignore[union-attr]
    assert node.core.state == ElectionState(4, -1, key(2))


def test_the_vote_does_not_count_in_the_epoch_of_a_later_leader() -> None:
    node = started(0)
    node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    node.core.receive(node.now, "begin", BeginEpoch(2, key(0), 4))
    assert Persist(ElectionState(4, 2, None)) in node.take()


@pytest.mark.parametrize("granted", [True, False])
def test_only_a_vote_that_is_given_postpones_the_own_election(granted: bool) -> None:
    node = started(0, image=Image(None, batches(2)), state=ElectionState(3, -1, None))
    node.pass_time(100)
    assert node.core.wake_at_ms() == 125
    node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(1 if granted else 0, 2), False))
    wake_at_ms = node.core.wake_at_ms()
    assert 1100 <= wake_at_ms < 2100 if granted else wake_at_ms == 125


def test_a_vote_that_is_given_late_postpones_the_own_election() -> None:
    node = started(0, state=ElectionState(3, -1, None))
    node.pass_time(LONG_MS)
    lose_pre_vote(node)
    node.pass_time(900)
    node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    assert node.now + 1000 <= node.core.wake_at_ms() < node.now + 2000


def test_a_pre_vote_does_not_postpone_the_own_election() -> None:
    node = started(0)
    assert node.ask(Vote(key(1), key(0), 0, OffsetAndEpoch(0, 0), True)).granted  # type: ignore[union-attr]
    assert node.core.wake_at_ms() == 125


def test_a_higher_epoch_ends_the_knowledge_of_the_leader() -> None:
    node = following()
    node.take()
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 6, OffsetAndEpoch(9, 4), False))
    effects = node.take()
    assert LeaderChanged(6, -1) in effects
    assert Persist(ElectionState(6, -1, None)) in effects
    assert node.core.state == ElectionState(6, -1, key(2))


def test_a_higher_epoch_is_reported_also_if_no_leader_was_known() -> None:
    node = started(0)
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 6, OffsetAndEpoch(0, 0), False))
    assert LeaderChanged(6, -1) in node.take()


def test_a_replica_that_has_left_its_leader_for_a_higher_epoch_gives_pre_votes() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    records = FetchResponse(ErrorCode.NONE, 5, 1, 0, pack(batches(5)))
    node.core.responded(node.now, 1, fetch, records)
    assert not node.ask(Vote(key(2), key(0), 6, OffsetAndEpoch(0, 0), False)).granted  # type: ignore[union-attr]
    assert node.core.role is Role.UNATTACHED
    assert node.ask(Vote(key(2), key(0), 6, OffsetAndEpoch(1, 5), True)).granted  # type: ignore[union-attr]


def test_the_loss_of_the_leader_is_reported_by_an_observer() -> None:
    node = started(9)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(9), 5))
    node.take()
    node.core.peer_lost(node.now, 1)
    effects = node.take()
    assert LeaderChanged(5, -1) in effects
    assert not [each for each in effects if isinstance(each, Persist)]  # epoch and vote are the same


def test_a_replica_that_still_knows_no_leader_reports_nothing() -> None:
    node = started(9)
    node.pass_time(LONG_MS)
    assert not [each for each in node.take() if isinstance(each, LeaderChanged | Persist)]


# Elections


def test_a_candidate_names_no_leader_and_votes_for_itself() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 1)
    vote(node, 2, granted=True)
    effects = node.take()
    assert effects[:2] == [Persist(ElectionState(6, -1, key(0))), LeaderChanged(6, -1)]
    response = node.ask(Vote(key(2), key(0), 6, OffsetAndEpoch(9, 5), False))
    assert response == VoteResponse(ErrorCode.NONE, 6, -1, False)


def test_a_pre_vote_and_a_vote_differ_in_the_epoch_and_in_their_name() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 1)
    assert dict(node.sent())[2] == Vote(key(0), key(2), 5, OffsetAndEpoch(0, 0), True)
    node.pass_time(LONG_MS)  # the pre-vote is lost
    node.pass_time(LONG_MS)
    vote(node, 2, granted=True)
    assert dict(node.sent())[2] == Vote(key(0), key(2), 6, OffsetAndEpoch(0, 0), False)


def test_votes_of_the_pre_vote_do_not_count_in_the_election() -> None:
    node = started(0, voters=5)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    for node_id in (1, 2):
        node.core.responded(node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, 0, -1, True))
    assert node.core.role is Role.CANDIDATE
    vote(node, 3, granted=True)
    assert node.core.role is Role.CANDIDATE


def test_a_new_leader_persists_and_reports_where_its_epoch_starts() -> None:
    node = elected()
    effects = node.take()
    assert Persist(ElectionState(1, 0, key(0))) in effects
    assert LeaderChanged(1, 0, 0) in effects
    assert node.ask(Fetch(key(1), 0, 0, 0, -1, 0)).leader_id == 0
    (change,) = node.log.batches[0].controls
    assert change.leader_id == 0  # type: ignore[attr-defined]
    assert [each.voter_id for each in change.voters] == [0, 1, 2]  # type: ignore[attr-defined]
    assert [each.voter_id for each in change.granting_voters] == [0, 1]  # type: ignore[attr-defined]


def test_an_epoch_starts_behind_records_that_are_not_durable_yet() -> None:
    """They are of an earlier epoch, so that a majority for them alone commits nothing."""
    node = following()
    ((_, fetch),) = node.sent()
    records = FetchResponse(ErrorCode.NONE, 5, 1, 0, pack(batches(5, 5)))
    node.core.responded(node.now, 1, fetch, records)
    node.core.peer_lost(node.now, 1)
    vote(node, 2, granted=True)
    vote(node, 2, granted=True)
    assert (node.core.role, node.log.durable_offset) == (Role.LEADER, 0)
    node.flush()
    node.core.receive(node.now, "fetch", Fetch(key(2), 6, 2, 5, -1, 0))
    assert node.core.high_watermark == 0
    node.core.receive(node.now, "fetch", Fetch(key(2), 6, 3, 6, -1, 0))
    assert node.core.high_watermark == 3


def test_a_candidate_that_has_lost_waits_for_a_random_time_below_the_backoff() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    vote(node, 1, granted=True)
    assert node.core.role is Role.CANDIDATE
    lose_pre_vote(node)
    assert node.core.role is Role.CANDIDATE
    wake_at_ms = node.core.wake_at_ms()
    assert node.now < wake_at_ms < node.now + 1000
    node.pass_time(wake_at_ms - node.now)
    assert (node.core.role, node.core.epoch) == (Role.PROSPECTIVE, 1)


@pytest.mark.parametrize("role", [Role.PROSPECTIVE, Role.CANDIDATE])
def test_a_nominee_without_responses_waits_for_the_election_timeout(role: Role) -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    if role is Role.CANDIDATE:  # at the end of the time for the pre-vote
        node.pass_time(node.core.wake_at_ms() - node.now - 1)
        vote(node, 1, granted=True)
    assert node.core.role is role
    node.pass_time(999)
    assert node.core.role is role
    node.pass_time(1001)
    assert node.core.role is (Role.UNATTACHED if role is Role.PROSPECTIVE else Role.PROSPECTIVE)


def test_election_timeouts_are_random_between_the_setting_and_twice_of_it() -> None:
    """An observer without a leader looks for one again after an election timeout."""
    node = started(9)
    timeouts = []
    for _ in range(200):
        timeouts.append(node.core.wake_at_ms() - node.now)
        node.pass_time(timeouts[-1])
    assert min(timeouts) >= 1000
    assert max(timeouts) < 2000
    assert max(timeouts) - min(timeouts) > 500


def test_a_nominee_follows_a_leader_of_its_own_epoch() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    vote(node, 1, granted=True)
    votes = dict(node.sent())
    node.core.responded(node.now, 2, votes[2], VoteResponse(ErrorCode.NONE, 1, 2, False))
    assert (node.core.role, node.core.leader_id, node.core.epoch) == (Role.FOLLOWER, 2, 1)


# The end of a leadership


def test_a_leader_that_resigns_names_no_leader_and_gives_no_vote_in_its_epoch() -> None:
    node = resigned()
    assert LeaderChanged(1, -1) in node.take()
    response = node.ask(Fetch(key(1), 1, 0, 0, -1, 0))
    assert response == FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, -1)
    refused = node.ask(Vote(key(2), key(0), 1, OffsetAndEpoch(9, 0), False))
    assert refused == VoteResponse(ErrorCode.NONE, 1, -1, False)


def test_a_resigned_leader_is_unattached_in_the_next_epoch_after_the_election_timeout() -> None:
    node = resigned()
    node.take()
    node.pass_time(999)
    assert node.core.role is Role.RESIGNED
    node.take()
    node.pass_time(1001)
    assert (node.core.role, node.core.state) == (Role.UNATTACHED, ElectionState(2, -1, None))
    assert Persist(ElectionState(2, -1, None)) in node.take()


def test_a_leader_that_a_majority_has_left_is_resigned_for_the_election_timeout() -> None:
    node = elected()
    node.pass_time(2999)
    assert node.core.role is Role.LEADER
    node.pass_time(1)
    assert node.core.role is Role.RESIGNED
    node.pass_time(999)
    assert node.core.role is Role.RESIGNED


def test_the_end_of_an_epoch_is_sent_until_the_voters_have_acknowledged_it() -> None:
    node = resigned()
    requests = dict(node.sent())
    assert requests == {1: EndEpoch(0, 1, (key(1), key(2))), 2: EndEpoch(0, 1, (key(1), key(2)))}
    node.core.responded(node.now, 1, requests[1], EndEpochResponse(ErrorCode.NONE, 1, -1))
    assert node.core.unacknowledged == {2}
    node.core.failed(node.now, 2, requests[2])
    node.pass_time(20)
    assert node.sent() == [(2, EndEpoch(0, 1, (key(1), key(2))))]


def test_a_replica_that_does_not_lead_appends_nothing() -> None:
    node = following()
    with pytest.raises(NotLeader):
        node.core.append(node.now, 5, [b"value"])
    resigned_node = resigned()
    end_offset = resigned_node.log.end_offset
    with pytest.raises(NotLeader):
        resigned_node.core.append(resigned_node.now, 1, [b"value"])
    assert (node.log.end_offset, resigned_node.log.end_offset) == (0, end_offset)


def test_a_follower_cannot_become_the_leader_without_an_election() -> None:
    node = following()
    with pytest.raises(InvariantViolation):
        node.core._become_leader(node.now)


def test_a_replica_that_does_not_lead_does_not_resign() -> None:
    node = following()
    node.take()
    node.core.resign(node.now)
    assert (node.core.role, node.take()) == (Role.FOLLOWER, [])


def test_the_silence_of_a_former_leader_begins_with_the_end_of_its_leadership() -> None:
    node = resigned()
    ended_ms = node.now
    node.pass_time(2000)
    assert node.core.role is Role.UNATTACHED
    node.pass_time(2000)
    vote(node, 1, granted=True)
    vote(node, 1, granted=True)
    assert node.core.leadership is not None
    assert node.core.leadership.silence_ms == node.now - ended_ms


def test_a_leader_deposed_by_a_higher_epoch_sends_no_end_of_its_epoch() -> None:
    node = elected()
    node.take()
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 4, OffsetAndEpoch(9, 3), False))
    assert not [one for _, one in node.sent() if isinstance(one, EndEpoch)]
    assert node.core.leadership is None


def test_the_only_voter_leads_again_after_a_restart_in_the_next_epoch() -> None:
    node = make(voters=1, state=ElectionState(4, 0, key(0)))
    node.core.start(0)
    assert (node.core.role, node.core.epoch) == (Role.LEADER, 5)


def test_a_leader_gives_no_pre_vote() -> None:
    node = elected()
    node.take()
    refused = node.ask(Vote(key(2), key(0), 1, OffsetAndEpoch(9, 1), True))
    assert refused == VoteResponse(ErrorCode.NONE, 1, 0, False)


def test_a_vote_that_is_requested_again_is_not_persisted_again() -> None:
    node = started(0)
    request = Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False)
    node.ask(request)
    assert node.ask(request).granted  # type: ignore[union-attr]
    assert not [each for each in node.effects if isinstance(each, Persist)]


def test_a_vote_that_was_refused_is_refused_again() -> None:
    node = started(0, image=Image(None, batches(2)))
    request = Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False)
    assert not node.ask(request).granted  # type: ignore[union-attr]
    assert not node.ask(request).granted  # type: ignore[union-attr]
    assert node.ask(Vote(key(2), key(0), 3, OffsetAndEpoch(1, 2), False)).granted  # type: ignore[union-attr]
