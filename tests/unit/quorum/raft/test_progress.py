"""What a leader knows of its replicas, and what a majority has."""

from __future__ import annotations

import uuid

from ottla.quorum.raft.progress import LeaderProgress
from ottla.quorum.raft.voters import ReplicaKey, Voter, VoterSet

OLD, NEW = uuid.UUID(int=11), uuid.UUID(int=12)
LOCAL = ReplicaKey(0)


def progress() -> LeaderProgress:
    return LeaderProgress(LOCAL, epoch_start=10, now_ms=0.0)


def caught_up(made: LeaderProgress) -> float:
    replica = made.voter(Voter(ReplicaKey(1)))
    assert replica is not None
    return replica.last_caught_up_ms


def test_a_replica_is_caught_up_when_it_fetches_from_the_end() -> None:
    made = progress()
    made.fetched(ReplicaKey(1), 100.0, 9, 10)
    assert caught_up(made) == -1
    made.fetched(ReplicaKey(1), 200.0, 12, 12)
    assert caught_up(made) == 200


def test_a_replica_was_caught_up_at_its_previous_fetch_if_it_now_has_what_existed_then() -> None:
    made = progress()
    for now_ms, offset, leader_end, expected in (
        (100.0, 9, 10, -1),
        (200.0, 10, 15, 100),
        (300.0, 14, 20, 100),
        (400.0, 20, 20, 400),
        (500.0, 20, 30, 400),
        (600.0, 25, 40, 400),
    ):
        made.fetched(ReplicaKey(1), now_ms, offset, leader_end)
        assert caught_up(made) == expected


def test_an_empty_leader_was_caught_up_with() -> None:
    made = progress()
    made.fetched(ReplicaKey(1), 100.0, 0, 0)
    made.fetched(ReplicaKey(1), 200.0, 0, 5)
    assert caught_up(made) == 100


def test_a_replica_in_another_directory_does_not_count() -> None:
    voters = VoterSet([Voter(LOCAL), Voter(ReplicaKey(1, OLD))])
    made = progress()
    made.fetched(ReplicaKey(1, NEW), 100.0, 15, 20)
    assert made.candidate_high_watermark(voters, 20) is None
    made.fetched(ReplicaKey(1, OLD), 200.0, 15, 20)
    assert made.candidate_high_watermark(voters, 20) == 15


def test_the_latest_replica_of_a_static_voter_counts() -> None:
    voters = VoterSet([Voter(LOCAL), Voter(ReplicaKey(1))])
    made = progress()
    made.fetched(ReplicaKey(1, OLD), 100.0, 20, 20)
    made.fetched(ReplicaKey(1, NEW), 200.0, 12, 20)
    assert made.candidate_high_watermark(voters, 20) == 12


def test_a_leader_that_is_no_voter_does_not_count() -> None:
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3))
    made = progress()
    made.fetched(ReplicaKey(1), 100.0, 15, 20)
    assert made.candidate_high_watermark(voters, 20) is None
    assert made.majority_contact_ms(voters, 500.0) == 0
    made.fetched(ReplicaKey(2), 200.0, 12, 20)
    assert made.candidate_high_watermark(voters, 20) == 12
    assert made.majority_contact_ms(voters, 500.0) == 100


def test_a_replica_has_caught_up_if_it_had_the_whole_log_lately() -> None:
    made = progress()
    key = ReplicaKey(1, NEW)
    assert not made.is_caught_up(key, 50.0, 1000)
    made.fetched(key, 100.0, 10, 20)
    assert not made.is_caught_up(key, 100.0, 1000)
    made.fetched(key, 200.0, 20, 20)
    assert made.is_caught_up(key, 1200.0, 1000)
    assert not made.is_caught_up(key, 1201.0, 1000)
    assert not made.is_caught_up(ReplicaKey(1, OLD), 200.0, 1000)


def test_the_replica_in_the_directory_of_a_voter_counts() -> None:
    voters = VoterSet([Voter(LOCAL), Voter(ReplicaKey(1, NEW))])
    made = progress()
    made.fetched(ReplicaKey(1, OLD), 100.0, 20, 20)
    made.fetched(ReplicaKey(1, NEW), 200.0, 12, 20)
    assert made.candidate_high_watermark(voters, 20) == 12
    assert made.majority_contact_ms(voters, 500.0) == 200


def test_the_contact_of_a_voter_that_has_not_fetched_is_the_election() -> None:
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(3))
    made = LeaderProgress(LOCAL, epoch_start=10, now_ms=50.0)
    assert made.majority_contact_ms(voters, 500.0) == 50
    made.fetched(ReplicaKey(2), 300.0, 0, 10)
    assert made.majority_contact_ms(voters, 500.0) == 300


def test_voters_that_have_not_fetched_are_the_last_successors() -> None:
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in range(4))
    made = progress()
    made.fetched(ReplicaKey(3), 100.0, 12, 20)
    made.fetched(ReplicaKey(2), 100.0, 11, 20)
    assert [each.node_id for each in made.successors(voters)] == [3, 2, 1]


def test_observers_that_have_not_fetched_for_five_minutes_are_forgotten() -> None:
    voters = VoterSet([Voter(LOCAL), Voter(ReplicaKey(1))])
    made = progress()
    for node_id, at_ms in ((1, 0.0), (7, 0.0), (8, 1.0)):
        made.fetched(ReplicaKey(node_id), at_ms, 12, 12)
    made.forget_inactive(voters, 299_999.0)
    assert [each.key.node_id for each in made.replicas] == [1, 7, 8]
    made.forget_inactive(voters, 300_000.0)
    assert [each.key.node_id for each in made.replicas] == [1, 8]
