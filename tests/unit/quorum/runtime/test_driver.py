"""The driver of the quorum core: nothing that depends on the election state leaves this node before it is durable."""

from __future__ import annotations

import uuid

import pytest
from structlog.testing import capture_logs

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.quorum.quorum_state import FILE_NAME, QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchResponse,
    OffsetAndEpoch,
    Vote,
    VoteResponse,
)
from ottla.quorum.raft.voters import ReplicaKey
from ottla.quorum.runtime.translation import decode_response, encode_error, encode_request
from ottla.testing.disk import Survival
from ottla.wire.messages.fetch import FetchResponse as FetchMessage
from ottla.wire.messages.vote import VoteResponse as VoteMessage
from tests.support.raft_log import DIRECTORY, fetched
from tests.support.raft_replica import CLUSTER, Replica, Unreachable

STATE = f"{DIRECTORY}/{FILE_NAME}"
EMPTY = OffsetAndEpoch(0, 0)


def durable_vote(replica: Replica) -> tuple[int, int]:
    """Epoch and vote that survive a power failure now."""
    stored = read_quorum_state(replica.disk.crash(Survival.NONE), STATE)
    return stored.leader_epoch, stored.voted_id


def vote_of(candidate: int, epoch: int = 7) -> Vote:
    return Vote(ReplicaKey(candidate), ReplicaKey(0), epoch, EMPTY, False)


def restarted(state: QuorumState, kraft_version: int = 0) -> Replica:
    """A replica that starts with a stored election state."""
    replica = Replica()
    write_quorum_state(replica.disk, STATE, state, kraft_version=kraft_version, node_id=0)
    return Replica(replica.disk).start()


# The election state


def test_a_vote_is_durable_before_its_response() -> None:
    replica = Replica().start()
    response = replica.receive(vote_of(1))

    while not response.done:
        assert durable_vote(replica) != (7, 1)
        assert replica.executor.step()

    assert durable_vote(replica) == (7, 1)
    decoded = decode_response(response.result())
    assert isinstance(decoded, VoteResponse)
    assert decoded.granted


def test_a_candidate_requests_votes_when_its_own_vote_is_durable() -> None:
    replica = Replica().start()
    replica.nominate()
    assert [one.pre_vote for one in replica.kinds(Vote)] == [True, True]
    assert durable_vote(replica) == (0, -1)
    assert replica.executor.step()
    assert durable_vote(replica) == (1, 0)
    requests = [one for one in replica.sent if isinstance(one.request, Vote) and not one.request.pre_vote]
    assert [one.node_id for one in requests] == [1, 2]


def test_a_replica_ends_when_its_core_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote may be in memory without the effect that persists it; the next response would send it."""
    replica = Replica().start()

    def vote_and_fail(*_: object) -> None:
        replica.quorum._core.voted = ReplicaKey(1)
        raise KeyError("voter")

    with monkeypatch.context() as broken:
        broken.setattr(replica.quorum._core, "receive", vote_and_fail)
        with pytest.raises(KeyError):
            replica.receive(vote_of(1))
    assert [event for event, _ in replica.seen.events][-1] == "failed"
    refused = replica.receive(vote_of(1))
    with pytest.raises(RemoteProtocolError, match="has stopped"):
        refused.result()
    assert durable_vote(replica) == (0, -1)


def test_everything_behind_a_vote_waits_for_it() -> None:
    replica = Replica().start()
    first = replica.receive(vote_of(1))
    second = replica.receive(vote_of(2, epoch=3))
    assert not first.done
    assert not second.done, "effects are executed in their order"
    replica.run()
    assert first.done
    assert second.done


def test_a_vote_is_known_after_a_restart() -> None:
    directory = uuid.UUID(int=5)
    replica = restarted(QuorumState(7, -1, 1, directory), kraft_version=1)
    assert replica.quorum.epoch == 7
    assert not replica.ask(vote_of(2)).granted
    other_disk = Vote(ReplicaKey(1, uuid.UUID(int=6)), ReplicaKey(0), 7, EMPTY, False)
    assert not replica.ask(other_disk).granted
    same_disk = Vote(ReplicaKey(1, directory), ReplicaKey(0), 7, EMPTY, False)
    assert replica.ask(same_disk).granted


def test_a_vote_that_was_not_given_is_available_after_a_restart() -> None:
    replica = restarted(QuorumState(7))
    assert replica.ask(vote_of(2)).granted


def test_the_leader_is_known_after_a_restart() -> None:
    replica = restarted(QuorumState(7, 2))
    assert (replica.quorum.epoch, replica.quorum.leader_id) == (7, 2)
    assert isinstance(replica.outstanding(2).request, Fetch)


def test_the_state_is_stored_in_the_version_of_the_cluster() -> None:
    for dynamic, directory in ((False, uuid.UUID(int=0)), (True, uuid.UUID(int=5))):
        replica = Replica(dynamic=dynamic).start()
        replica.ask(Vote(ReplicaKey(1, uuid.UUID(int=5)), ReplicaKey(0), 7, EMPTY, False))
        assert read_quorum_state(replica.disk, STATE) == QuorumState(7, -1, 1, directory)
    assert Replica().quorum.kraft_version == 0


# Requests of other replicas


def test_a_request_of_another_cluster_is_refused() -> None:
    replica = Replica().start()
    promise = replica.quorum.receive(encode_request(vote_of(1), "d" * 22).message)
    response = promise.result()
    assert isinstance(response, VoteMessage)
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert replica.quorum.epoch == 0


def test_a_response_has_the_start_of_the_log() -> None:
    replica = Replica().start()
    response = replica.fetch(0).result()
    assert isinstance(response, FetchMessage)
    assert response.responses[0].partitions[0].log_start_offset == 0


def test_a_request_that_arrives_during_an_effect_is_executed_after_it() -> None:
    """A transport may settle a promise at once, while the driver executes effects."""
    replica = Replica().start()
    promise = replica.receive(vote_of(1))
    epochs: list[tuple[int, int]] = []

    def react(_: object, __: object) -> None:
        replica.receive(vote_of(2, epoch=9))
        epochs.append(durable_vote(replica))

    promise.when_done(react)
    replica.run()
    assert epochs == [(7, 1)]
    assert durable_vote(replica) == (9, 2)


# Requests to other replicas


def test_a_request_is_sent_with_its_timeout_and_versions() -> None:
    replica = Replica().start()
    replica.nominate()
    sent = next(one for one in replica.sent if isinstance(one.request, Vote))
    assert (sent.response, sent.timeout_s, sent.versions) == (VoteMessage, 2.0, range(2, 3))


@pytest.mark.parametrize("error", [Unreachable(), ValueError("an error of the program")])
def test_a_request_that_failed_is_sent_again_after_the_backoff(error: Exception) -> None:
    replica = Replica().start()
    replica.follow()
    replica.outstanding(1).promise.fail(error)
    count = len(replica.sent)
    replica.advance(0.015)
    assert len(replica.sent) == count
    replica.advance(0.01)
    assert [one.node_id for one in replica.sent[count:]] == [1]


def test_a_response_that_is_refused_counts_as_a_failure() -> None:
    replica = Replica().start()
    replica.follow()
    replica.outstanding(1).promise.keep(FetchMessage())  # no partition
    count = len(replica.sent)
    replica.advance(0.025)
    assert [one.node_id for one in replica.sent[count:]] == [1]
    assert replica.foreign == 0


def test_the_response_of_a_node_counts_for_that_node_and_request() -> None:
    replica = Replica().start()
    replica.follow()
    replica.answer(1, FetchResponse(ErrorCode.NONE, 5, 1, 1, fetched(0, 5, b"a")))
    replica.run()
    assert replica.quorum.log_end_offset == 1
    assert replica.outstanding(1).request == Fetch(ReplicaKey(0), 5, 1, 5, 1, 500)


def until_sent(replica: Replica, node_id: int) -> None:
    """Advance until a request to a node waits for its response."""
    while [one for one in replica.sent if one.node_id == node_id][-1].promise.done:
        replica.advance(0.05)


def refuse(replica: Replica, node_id: int, error: ErrorCode) -> None:
    """Refuse a request to a node, which is sent again later."""
    until_sent(replica, node_id)
    message = encode_request(replica.outstanding(node_id).request, CLUSTER).message
    replica.outstanding(node_id).promise.keep(encode_error(message, error))


def test_a_node_that_all_other_voters_refuse_is_foreign() -> None:
    replica = Replica().start()
    replica.nominate()
    replica.run()
    refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert replica.foreign == 0, "node 1 may be the foreign one"
    refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert replica.foreign == 0
    refuse(replica, 2, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert replica.foreign == 1


def test_a_refusal_is_logged_again_only_after_a_response() -> None:
    replica = Replica().start()
    replica.nominate()
    replica.run()
    with capture_logs() as lines:
        for _ in range(3):
            refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert [(line["node"], line["own_cluster_id"]) for line in lines] == [(1, CLUSTER)]
        until_sent(replica, 1)
        replica.answer(1, VoteResponse(ErrorCode.NONE, 1, -1, False))
        refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
        refused = [line for line in lines if line["log_level"] == "warning"]
        assert [line["reason"] for line in refused] == ["INCONSISTENT_CLUSTER_ID"] * 2


def test_a_node_that_the_only_other_voter_refuses_is_foreign() -> None:
    replica = Replica(voters=2).start()
    replica.nominate()
    replica.run()
    refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert replica.foreign == 1


def test_a_node_that_a_majority_refuses_is_foreign() -> None:
    replica = Replica(voters=5).start()
    while not replica.kinds(Vote):
        replica.advance(0.125)
    for node_id, foreign in ((1, 0), (2, 0), (3, 1)):
        refuse(replica, node_id, ErrorCode.INCONSISTENT_CLUSTER_ID)
        assert replica.foreign == foreign


def test_another_refusal_does_not_make_a_node_foreign() -> None:
    replica = Replica().start()
    replica.nominate()
    replica.run()
    for node_id in (1, 2):
        refuse(replica, node_id, ErrorCode.INVALID_REQUEST)
    assert replica.foreign == 0


def test_a_voter_that_responds_refuses_no_longer() -> None:
    replica = Replica().start()
    replica.nominate()
    replica.run()
    refuse(replica, 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    while replica.sent[-1].node_id != 1:
        replica.advance(0.01)
    replica.answer(1, VoteResponse(ErrorCode.NONE, 1, -1, False))
    refuse(replica, 2, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert replica.foreign == 0


# Time


def test_the_timer_is_set_to_the_next_event_of_the_core() -> None:
    replica = Replica().start()
    assert [timer.delay for timer in replica.armed] == [0.125], "node 0 starts an election first"
    replica.advance(0.124)
    assert replica.kinds(Vote) == []
    replica.advance(0.002)
    assert len(replica.kinds(Vote)) == 2
    assert len(replica.armed) == 1


def test_the_timer_is_replaced_when_the_next_event_changes() -> None:
    replica = Replica().start()
    before = replica.armed
    replica.receive(Vote(ReplicaKey(1), ReplicaKey(0), 0, EMPTY, True))
    assert replica.armed == before, "the same event is next"
    replica.follow()
    assert before[0].cancelled
    assert [timer.delay for timer in replica.armed] == [2.0]


def test_an_event_that_is_late_is_handled_at_once() -> None:
    replica = Replica().start()
    replica.lead()
    replica.advance(0.7)
    replica.fetch(1, wait_ms=500, high_watermark=1)  # until 1.2 s after the election
    replica.now += 0.8
    replica.receive(Vote(ReplicaKey(1), ReplicaKey(0), 1, EMPTY, True))
    assert [timer.delay for timer in replica.armed] == [0.0]


def test_a_timer_that_is_called_too_early_is_set_again() -> None:
    replica = Replica().start()
    (timer,) = replica.armed
    timer.cancelled = True
    replica.now += 0.124
    timer.callback()
    assert [round(one.delay, 6) for one in replica.armed] == [0.001]


# Leaders


def test_a_lost_leader_is_replaced_without_waiting() -> None:
    replica = Replica().start()
    replica.follow()
    replica.quorum.peer_lost(2)
    replica.advance(0.001)
    assert replica.kinds(Vote) == []
    replica.quorum.peer_lost(1)
    replica.advance(0.001)
    assert [one.pre_vote for one in replica.kinds(Vote)] == [True, True]


def test_a_leader_that_resigns_notifies_the_voters() -> None:
    replica = Replica().start()
    epoch = replica.lead()
    assert replica.quorum.leader_id == 0
    replica.quorum.resign()
    assert [(one.leader_id, one.epoch) for one in replica.kinds(EndEpoch)] == [(0, epoch)] * 2
    assert replica.quorum.leader_id == -1
    assert replica.seen.events[-1] == ("resigned", epoch)


def test_the_silence_before_an_election_is_known_to_the_leader() -> None:
    replica = Replica().start()
    replica.follow()
    assert replica.quorum.silence_ms == 0.0
    heard = replica.now
    replica.advance(2.5)
    replica.answer(1, VoteResponse(ErrorCode.NONE, 5, 1, True))
    replica.run()
    replica.answer(1, VoteResponse(ErrorCode.NONE, 6, -1, True))
    assert replica.quorum.silence_ms == pytest.approx((replica.now - heard) * 1000, abs=0.5)


def test_a_voter_that_has_lost_its_log_votes_when_it_has_recovered() -> None:
    replica = Replica(recovering=True).start()
    assert not replica.ask(vote_of(1, epoch=3)).granted
    replica.follow()
    replica.answer(1, FetchResponse(ErrorCode.NONE, 5, 1, 1, fetched(0, 5, b"a")))
    replica.run()
    assert replica.recovered == 0, "node 2 has not reported its epoch"
    replica.answer(2, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 1))
    replica.run()
    assert replica.recovered == 1
    vote = Vote(ReplicaKey(2), ReplicaKey(0), 6, OffsetAndEpoch(1, 5), False)
    assert replica.ask(vote).granted


# The end


def test_a_closed_replica_takes_no_part() -> None:
    replica = Replica().start()
    replica.lead()
    waiting = replica.fetch(1, wait_ms=500, high_watermark=1)
    replica.quorum.close()
    replica.quorum.close()
    assert isinstance(waiting.error, RemoteProtocolError)
    assert replica.armed == []
    count = len(replica.sent)
    late = replica.receive(BeginEpoch(1, ReplicaKey(0), 9))
    assert isinstance(late.error, RemoteProtocolError)
    replica.quorum.resign()
    replica.run()
    assert len(replica.sent) == count
    assert (replica.quorum.epoch, replica.quorum.leader_id) == (1, 0)


def test_a_response_is_sent_once() -> None:
    replica = Replica().start()
    response = replica.receive(vote_of(1))
    replica.run()
    replica.quorum.close()
    assert isinstance(response.result(), VoteMessage)


def test_a_closed_replica_that_never_started_is_closed() -> None:
    Replica().quorum.close()
