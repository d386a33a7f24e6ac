"""The quorum core, step by step: elections, votes, epochs, the high watermark and truncation."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.base.rng import Random
from ottla.quorum.quorum import NotLeader
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.messages import (
    BeginEpoch,
    Committed,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    LeaderChanged,
    OffsetAndEpoch,
    Persist,
    Recovered,
    Request,
    Respond,
    Response,
    Send,
    SnapshotInstalled,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.testing.cores.memory_log import Batch, Image, MemoryLog, pack

LONG_MS = 100_000.0


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id)


@dataclass
class Node:
    """A core with everything it has done so far."""

    core: Core
    log: MemoryLog
    now: float = 0.0
    effects: list[Effect] = field(default_factory=list)

    def take(self) -> list[Effect]:
        """The effects since the last call."""
        self.effects = self.core.take_effects()
        return self.effects

    def sent(self) -> list[tuple[int, Request]]:
        return [(effect.node_id, effect.request) for effect in self.take() if isinstance(effect, Send)]

    def ask(self, request: Request) -> Response:
        """The response to a request that is answered at once."""
        self.core.receive(self.now, "token", request)
        (response,) = [effect.response for effect in self.take() if isinstance(effect, Respond)]
        return response

    def flush(self) -> None:
        """Finish all writes of the log."""
        while self.log.has_unfinished_writes:
            self.log.finish_write()
        self.core.durable(self.now)

    def pass_time(self, milliseconds: float) -> None:
        self.now += milliseconds
        self.core.tick(self.now)


def make(
    node_id: int = 0, voters: int = 3, image: Image | None = None, state: ElectionState | None = None
) -> Node:
    log = MemoryLog(image) if image else MemoryLog()
    voter_set = VoterSet(Voter(key(voter_id)) for voter_id in range(voters))
    return Node(Core(key(node_id), voter_set, log, state or ElectionState(), Random(1)), log)


def started(node_id: int = 0, voters: int = 3, **options: object) -> Node:
    node = make(node_id, voters, **options)  # type: ignore[arg-type]
    node.core.start(0)
    node.take()
    return node


def elected(voters: int = 3) -> Node:
    """Node 0 as leader of epoch 1, with the vote of node 1."""
    node = started(0, voters)
    node.pass_time(LONG_MS)
    for granted_role in (Role.PROSPECTIVE, Role.CANDIDATE):
        assert node.core.role is granted_role
        votes = dict(node.sent())
        for node_id in range(1, node.core.voters.majority):
            epoch = node.core.epoch
            node.core.responded(
                node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, epoch, -1, True)
            )
    assert node.core.role is Role.LEADER
    return node


def following(image: Image | None = None) -> Node:
    """Node 0 as a follower of node 1 in epoch 5."""
    node = started(0, image=image)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 5))
    assert node.core.role is Role.FOLLOWER
    return node


def batches(*epochs: int) -> tuple[Batch, ...]:
    """One batch of one record for each epoch."""
    return tuple(Batch(at, at + 1, epoch, (b"value",)) for at, epoch in enumerate(epochs))


def test_the_only_voter_elects_itself_at_once() -> None:
    node = make(voters=1)
    node.core.start(0)
    assert node.core.role is Role.LEADER
    assert node.core.epoch == 1
    node.take()
    node.flush()
    assert Committed(1) in node.take()


def test_a_vote_is_persisted_before_it_is_sent() -> None:
    node = started(0)
    node.core.receive(node.now, "token", Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    effects = node.take()
    answer = next(at for at, effect in enumerate(effects) if isinstance(effect, Respond))
    states = [effect.state for effect in effects[:answer] if isinstance(effect, Persist)]
    assert states[-1] == ElectionState(3, -1, key(1))
    assert isinstance(effects[answer], Respond)


def test_a_candidate_persists_its_epoch_before_it_sends_votes() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 0, -1, True))
    effects = node.take()
    assert effects[0] == Persist(ElectionState(1, -1, key(0)))
    assert [effect.node_id for effect in effects if isinstance(effect, Send)] == [1, 2]


def test_a_replica_votes_once_per_epoch() -> None:
    node = started(0)
    first = node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    second = node.ask(Vote(key(2), key(0), 3, OffsetAndEpoch(9, 2), False))
    again = node.ask(Vote(key(1), key(0), 3, OffsetAndEpoch(0, 0), False))
    assert [first.granted, second.granted, again.granted] == [True, False, True]  # type: ignore[union-attr]


def test_a_vote_survives_a_restart() -> None:
    node = started(0, state=ElectionState(3, -1, key(1)))
    response = node.ask(Vote(key(2), key(0), 3, OffsetAndEpoch(9, 2), False))
    assert response == VoteResponse(ErrorCode.NONE, 3, -1, False)


@pytest.mark.parametrize(
    ("last", "granted"),
    [
        (OffsetAndEpoch(3, 2), True),
        (OffsetAndEpoch(4, 2), True),
        (OffsetAndEpoch(2, 2), False),
        (OffsetAndEpoch(1, 3), True),
        (OffsetAndEpoch(9, 1), False),
    ],
)
@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_vote_is_granted_only_to_a_log_that_is_up_to_date(
    last: OffsetAndEpoch, granted: bool, pre_vote: bool
) -> None:
    node = started(0, image=Image(None, batches(1, 2, 2)))
    response = node.ask(Vote(key(1), key(0), 7, last, pre_vote))
    assert response == VoteResponse(ErrorCode.NONE, 7, -1, granted)


def test_a_vote_of_an_old_epoch_is_fenced() -> None:
    node = started(0, state=ElectionState(7, -1, None))
    response = node.ask(Vote(key(1), key(0), 6, OffsetAndEpoch(0, 0), False))
    assert response == VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, 7, -1, False)


def test_a_vote_for_another_replica_is_refused() -> None:
    node = started(0)
    response = node.ask(Vote(key(1), key(2), 6, OffsetAndEpoch(0, 0), False))
    assert response.error is ErrorCode.INVALID_VOTER_KEY


def test_a_pre_vote_changes_no_state() -> None:
    node = started(0)
    before = node.core.state
    node.ask(Vote(key(1), key(0), 0, OffsetAndEpoch(0, 0), True))
    assert node.core.state == before
    assert not [effect for effect in node.effects if isinstance(effect, Persist)]


def test_a_follower_in_contact_with_its_leader_refuses_a_pre_vote() -> None:
    node = following()
    ((leader_id, fetch),) = node.sent()
    node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    refused = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), True))
    assert not refused.granted  # type: ignore[union-attr]
    node.core.peer_lost(node.now, 1)
    granted = node.ask(Vote(key(2), key(0), 5, OffsetAndEpoch(0, 0), True))
    assert granted.granted  # type: ignore[union-attr]


def test_evidence_starts_a_pre_vote_without_waiting_for_the_fetch_timeout() -> None:
    node = following()
    node.take()
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.PROSPECTIVE
    assert {node_id for node_id, _ in node.sent()} == {1, 2}
    assert node.core.epoch == 5


def test_the_second_in_turn_waits_before_its_pre_vote() -> None:
    node = started(2)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(2), 5))
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.FOLLOWER
    node.pass_time(200)
    assert node.core.role is Role.PROSPECTIVE


def win(node: Node) -> None:
    """Node 0 wins the pre-vote and the vote with node 2."""
    for _ in range(2):
        votes = dict(node.sent())
        node.core.responded(node.now, 2, votes[2], VoteResponse(ErrorCode.NONE, node.core.epoch, -1, True))
    assert node.core.role is Role.LEADER


def test_silence_before_an_election_is_measured_from_the_last_response_of_the_leader() -> None:
    node = following()
    node.pass_time(500)
    ((leader_id, fetch),) = node.sent()
    node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.pass_time(2000)
    assert node.core.role is Role.PROSPECTIVE
    node.pass_time(30)
    win(node)
    assert node.core.leadership is not None
    assert node.core.leadership.silence_ms == 2030


def test_an_election_on_evidence_has_no_silence() -> None:
    node = following()
    ((leader_id, fetch),) = node.sent()
    node.pass_time(100)
    node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.take()
    node.core.peer_lost(node.now, 1)
    win(node)
    assert node.core.leadership is not None
    assert node.core.leadership.silence_ms == 0


def test_a_replica_that_has_never_heard_of_a_leader_has_no_silence() -> None:
    leadership = elected().core.leadership
    assert leadership is not None
    assert leadership.silence_ms == 0


def test_a_lost_pre_vote_returns_to_the_known_leader() -> None:
    node = following()
    node.core.peer_lost(node.now, 1)
    votes = dict(node.sent())
    for node_id in (1, 2):
        node.core.responded(node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, 5, 1, False))
    assert (node.core.role, node.core.leader_id, node.core.epoch) == (Role.FOLLOWER, 1, 5)


def test_a_lost_pre_vote_is_repeated_soon_and_does_not_end_the_silence() -> None:
    """The other voter may have heard of the leader a little later, so that its fetch timeout has not passed yet."""
    node = following()
    ((leader_id, fetch),) = node.sent()
    node.core.responded(node.now, leader_id, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0))
    node.pass_time(2000)
    votes = dict(node.sent())
    for node_id in (1, 2):
        node.core.responded(node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, 5, 1, False))
    assert node.core.role is Role.FOLLOWER
    node.take()
    node.pass_time(300)
    assert node.core.role is Role.PROSPECTIVE
    win(node)
    assert node.core.leadership is not None
    assert node.core.leadership.silence_ms == 2300


def test_a_granted_pre_vote_that_names_the_lost_leader_counts() -> None:
    node = following()
    node.core.peer_lost(node.now, 1)
    votes = dict(node.sent())
    node.core.responded(node.now, 2, votes[2], VoteResponse(ErrorCode.NONE, 5, 1, True))
    assert (node.core.role, node.core.epoch) == (Role.CANDIDATE, 6)


def test_a_response_to_a_request_of_an_earlier_role_is_ignored() -> None:
    node = started(0)
    node.pass_time(LONG_MS)
    votes = dict(node.sent())
    node.core.receive(node.now, "begin", BeginEpoch(2, key(0), 4))
    node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, 4, 2, True))
    assert (node.core.role, node.core.epoch) == (Role.FOLLOWER, 4)


def test_a_late_response_of_an_earlier_term_truncates_nothing() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    ((_, old_fetch),) = node.sent()
    node.core.peer_lost(node.now, 1)
    votes = dict(node.sent())
    for node_id in (1, 2):
        node.core.responded(node.now, node_id, votes[node_id], VoteResponse(ErrorCode.NONE, 5, 1, False))
    assert node.core.role is Role.FOLLOWER
    diverging = FetchResponse(ErrorCode.NONE, 5, 1, 0, diverging=OffsetAndEpoch(1, 1))
    node.core.responded(node.now, 1, old_fetch, diverging)
    assert node.core.log_end == OffsetAndEpoch(3, 3)


def test_the_high_watermark_needs_a_majority_and_a_record_of_the_own_epoch() -> None:
    node = started(0, image=Image(None, batches(1, 1, 1)), state=ElectionState(1, -1, None))
    node.pass_time(LONG_MS)
    for _ in range(2):
        votes = dict(node.sent())
        node.core.responded(node.now, 1, votes[1], VoteResponse(ErrorCode.NONE, node.core.epoch, -1, True))
    assert node.core.epoch == 2
    node.flush()
    node.take()
    node.core.receive(node.now, "one", Fetch(key(1), 2, 3, 1, -1, 0))
    assert not [effect for effect in node.take() if isinstance(effect, Committed)]
    node.core.receive(node.now, "two", Fetch(key(1), 2, 4, 2, -1, 0))
    assert Committed(4) in node.take()


def test_a_leader_counts_its_own_records_only_when_they_are_durable() -> None:
    node = elected(voters=3)
    node.take()
    node.core.receive(node.now, "one", Fetch(key(1), 1, 1, 1, -1, 0))
    assert not [effect for effect in node.take() if isinstance(effect, Committed)]
    node.flush()
    assert Committed(1) in node.take()


def test_an_observer_does_not_count() -> None:
    node = elected(voters=3)
    node.flush()
    node.take()
    node.core.receive(node.now, "one", Fetch(key(7), 1, 1, 1, -1, 0))
    assert not [effect for effect in node.take() if isinstance(effect, Committed)]


def test_an_append_in_another_epoch_is_refused() -> None:
    node = elected()
    assert node.core.append(node.now, 1, [b"one", b"two"]) == 2
    with pytest.raises(NotLeader):
        node.core.append(node.now, 2, [b"three"])


def test_a_fetch_waits_for_records_and_gets_them() -> None:
    node = elected()
    node.flush()
    node.core.receive(node.now, "first", Fetch(key(1), 1, 1, 1, -1, 500))
    node.take()
    node.core.receive(node.now, "waits", Fetch(key(1), 1, 1, 1, 1, 500))
    assert node.take() == []
    node.core.append(node.now, 1, [b"one"])
    (effect,) = node.take()
    assert isinstance(effect, Respond)
    assert effect.token in ("waits",)
    assert effect.response.records  # type: ignore[union-attr]


def test_a_waiting_fetch_gets_a_response_at_its_deadline() -> None:
    node = elected()
    node.flush()
    node.core.receive(node.now, "first", Fetch(key(1), 1, 1, 1, -1, 500))
    node.core.receive(node.now, "waits", Fetch(key(1), 1, 1, 1, 1, 500))
    node.take()
    node.pass_time(500)
    (effect,) = [one for one in node.take() if isinstance(one, Respond)]
    assert effect.response == FetchResponse(ErrorCode.NONE, 1, 0, 1)


def test_fetches_that_wait_are_refused_when_the_leader_loses_its_role() -> None:
    node = elected()
    node.flush()
    node.core.receive(node.now, "first", Fetch(key(1), 1, 1, 1, -1, 500))
    node.core.receive(node.now, "waits", Fetch(key(1), 1, 1, 1, 1, 500))
    node.take()
    node.core.receive(node.now, "vote", Vote(key(2), key(0), 4, OffsetAndEpoch(9, 3), False))
    answers = {effect.token: effect.response.error for effect in node.take() if isinstance(effect, Respond)}
    assert answers == {"waits": ErrorCode.NOT_LEADER_OR_FOLLOWER, "vote": ErrorCode.NONE}


def test_a_fetch_of_another_history_gets_the_diverging_epoch() -> None:
    node = elected()
    response = node.ask(Fetch(key(1), 1, 5, 0, -1, 0))
    assert response.diverging == OffsetAndEpoch(0, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_epoch_is_fenced(epoch: int, error: ErrorCode) -> None:
    node = elected()
    assert node.ask(Fetch(key(1), epoch, 0, 0, -1, 0)).error is error


def test_a_follower_fetches_again_only_when_its_records_are_durable() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    records = pack(batches(5, 5))
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 0, records))
    assert node.sent() == []
    node.flush()
    ((_, again),) = node.sent()
    assert isinstance(again, Fetch)
    assert (again.offset, again.last_epoch) == (2, 5)


def test_a_follower_truncates_at_the_diverging_epoch() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    ((_, fetch),) = node.sent()
    diverging = FetchResponse(ErrorCode.NONE, 5, 1, 0, diverging=OffsetAndEpoch(2, 2))
    node.core.responded(node.now, 1, fetch, diverging)
    assert node.core.log_end == OffsetAndEpoch(2, 2)


def test_a_follower_never_truncates_below_its_high_watermark() -> None:
    node = following(Image(None, batches(1, 2, 3)))
    ((_, fetch),) = node.sent()
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 3))
    ((_, fetch),) = node.sent()
    diverging = FetchResponse(ErrorCode.NONE, 5, 1, 3, diverging=OffsetAndEpoch(2, 2))
    with pytest.raises(InvariantViolation):
        node.core.responded(node.now, 1, fetch, diverging)


def test_a_follower_installs_a_snapshot_in_parts() -> None:
    node = following()
    ((_, fetch),) = node.sent()
    wanted = OffsetAndEpoch(40, 4)
    node.core.responded(node.now, 1, fetch, FetchResponse(ErrorCode.NONE, 5, 1, 50, snapshot=wanted))
    ((_, first),) = node.sent()
    assert first == FetchSnapshot(key(0), 5, wanted, 0)
    part = FetchSnapshotResponse(ErrorCode.NONE, 5, 1, wanted, 2, 0, b"a")
    node.core.responded(node.now, 1, first, part)
    ((_, second),) = node.sent()
    assert second == FetchSnapshot(key(0), 5, wanted, 1)
    node.core.responded(node.now, 1, second, part._replace(position=1))
    node.flush()
    effects = node.take()
    assert SnapshotInstalled(wanted) in effects
    assert node.core.log_end == wanted
    assert node.core.high_watermark == 40


def test_a_leader_without_a_majority_resigns() -> None:
    node = elected()
    node.take()
    node.pass_time(3000)
    assert node.core.role is Role.RESIGNED
    assert LeaderChanged(1, -1) in node.take()


def test_a_leader_that_a_majority_fetches_from_stays() -> None:
    node = elected()
    for _ in range(10):
        node.pass_time(1000)
        node.core.receive(node.now, "token", Fetch(key(2), 1, 0, 0, -1, 0))
    assert node.core.role is Role.LEADER


def test_a_resigning_leader_names_the_longest_logs_first() -> None:
    node = elected(voters=3)
    node.core.append(node.now, 1, [b"one"])
    node.flush()
    node.core.receive(node.now, "a", Fetch(key(1), 1, 1, 1, -1, 0))
    node.core.receive(node.now, "b", Fetch(key(2), 1, 2, 1, -1, 0))
    node.take()
    node.core.resign(node.now)
    requests = [request for _, request in node.sent()]
    assert requests == [EndEpoch(0, 1, (key(2), key(1)))] * 2


def test_the_first_successor_starts_a_pre_vote_at_once() -> None:
    node = following()
    node.take()
    node.ask(EndEpoch(1, 5, (key(0), key(2))))
    assert node.core.role is Role.PROSPECTIVE


def test_a_higher_epoch_deposes_a_leader() -> None:
    node = elected()
    node.take()
    node.core.receive(node.now, "begin", BeginEpoch(2, key(0), 6))
    effects = node.take()
    assert (node.core.role, node.core.leader_id) == (Role.FOLLOWER, 2)
    assert Persist(ElectionState(6, 2, None)) in effects
    assert LeaderChanged(6, 2) in effects


def test_a_restarted_leader_does_not_lead_its_epoch_again() -> None:
    node = started(0, state=ElectionState(4, 0, key(0)))
    assert (node.core.role, node.core.epoch) == (Role.UNATTACHED, 4)
    assert not node.ask(Vote(key(1), key(0), 4, OffsetAndEpoch(9, 3), False)).granted  # type: ignore[union-attr]


def test_an_observer_never_becomes_a_candidate() -> None:
    node = started(9)
    node.pass_time(LONG_MS)
    assert node.core.role is Role.UNATTACHED


# A voter that has lost its log


def recovering(image: Image | None = None) -> Node:
    """Node 0 of three voters, recovering, as a follower of node 1 in epoch 5."""
    log = MemoryLog(image) if image else MemoryLog()
    voters = VoterSet(Voter(key(voter_id)) for voter_id in range(3))
    node = Node(Core(key(0), voters, log, ElectionState(), Random(1), recovering=True), log)
    node.core.start(0)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(0), 5))
    return node


def fetched(node: Node, node_id: int, response: FetchResponse) -> None:
    """The node sends its requests, and one of them gets this response."""
    requests = [one for at, one in node.sent() if at == node_id]
    node.core.responded(node.now, node_id, requests[-1], response)


def test_recovering_voter_gives_no_vote_and_is_no_candidate() -> None:
    node = recovering()
    node.take()
    for pre_vote in (True, False):
        vote = Vote(key(2), key(0), 6, OffsetAndEpoch(9, 5), pre_vote)
        response = node.ask(vote)
        assert isinstance(response, VoteResponse)
        assert not response.granted
    node.pass_time(LONG_MS)
    assert node.core.role is Role.UNATTACHED


def test_recovering_voter_votes_again_when_it_has_the_log_and_a_majority_has_reported() -> None:
    node = recovering()
    response = FetchResponse(ErrorCode.NONE, 5, 1, 2, pack(batches(4, 5)))
    requests = dict(node.sent())
    assert set(requests) == {1, 2}  # it also requests the epoch of node 2
    node.core.responded(node.now, 1, requests[1], response)
    node.flush()
    assert not node.core.can_vote  # node 2 may know a later leader
    node.take()
    node.core.responded(node.now, 2, requests[2], FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1))
    assert node.core.can_vote
    assert Recovered() in node.take()


def test_recovering_voter_waits_for_a_commit_in_the_epoch_of_the_leader() -> None:
    node = recovering()
    requests = dict(node.sent())
    node.core.responded(node.now, 2, requests[2], FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1))
    node.core.responded(node.now, 1, requests[1], FetchResponse(ErrorCode.NONE, 5, 1, 1, pack(batches(4, 5))))
    node.flush()
    assert not node.core.can_vote  # the record of epoch 5 is not committed: more may be committed below it
    fetched(node, 1, FetchResponse(ErrorCode.NONE, 5, 1, 2))
    assert node.core.can_vote


def test_observer_looks_for_another_leader_at_once_when_the_leader_is_lost() -> None:
    node = started(3)
    node.core.receive(node.now, "begin", BeginEpoch(1, key(3), 5))
    node.take()
    node.core.peer_lost(node.now, 1)
    assert node.core.role is Role.UNATTACHED
